// SPDX-License-Identifier: Apache-2.0
// Training steps whose frozen buckets are packed by graphs (HVD_GPU_GRAPHS=1).
#include <cstdlib>

#include "world/nccl_world.h"

namespace hvd {
namespace {

using Bits = std::vector<std::vector<float>>;

class NcclGraphSteps : public NcclWorld {
 protected:
  void SetUp() override {
    NcclWorld::SetUp();
    use_graphs(false);
  }
  void TearDown() override {
    use_graphs(false);
    EXPECT_EQ(double_graphs(), 0U) << "graphs are left";
    NcclWorld::TearDown();
  }
  /// Of the worlds that are made from here on.
  static void use_graphs(bool yes) {
    // No rank runs between two worlds. NOLINTBEGIN(concurrency-mt-unsafe)
    if (yes) {
      setenv("HVD_GPU_GRAPHS", "1", 1);
    } else {
      unsetenv("HVD_GPU_GRAPHS");
    }
    // NOLINTEND(concurrency-mt-unsafe)
  }
};

constexpr std::size_t kTensors = 12;
constexpr std::size_t kCount = 333;

/// What each rank has after each step, one behind the other.
struct Training {
  std::vector<Bits> results;  ///< [rank]
  std::uint64_t frozen_buckets = 0;
  std::uint64_t thaws = 0;
};

/// One step on `tensors`, the last `skipped` of which this rank leaves out.
void step(int rank, Engine& engine, std::vector<DeviceTensor<float>>& tensors, StreamHandle stream,
          int number, std::size_t skipped, Bits& results) {
  std::vector<std::vector<float>> values(tensors.size());
  std::vector<Engine::Handle> handles;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values[i].assign(kCount, 0.1F * static_cast<float>(number + rank) + static_cast<float>(i));
    tensors[i].fill(values[i], stream);
  }
  for (std::size_t i = 0; i + skipped < tensors.size(); ++i) {
    Request request = gpu_request("gradient " + std::to_string(i), rank, tensors[i], stream,
                                  Allreduce{.op = ReduceOp::kAverage, .prescale = 0.3});
    request.more = i + skipped + 1 < tensors.size();
    handles.push_back(engine.submit(std::move(request)).value());
  }
  for (const Engine::Handle handle : handles) {
    const Status status = engine.wait(handle, soon());
    EXPECT_TRUE(status.is_ok()) << status.message();
    engine.release(handle);
  }
  ASSERT_TRUE(GpuWorld::gpu(rank).wait(*GpuWorld::gpu(rank).record(stream).value()).is_ok());
  for (const auto& tensor : tensors) results.push_back(tensor.values());
}

/// Steps that repeat, the same with other memory on rank 1, steps without some gradients, and
/// again those of the begin.
Training train() {
  NcclRanks world({2});
  Training training;
  training.results.resize(2);
  world.run([&](int rank, Engine& engine) {
    const OwnStream stream(GpuWorld::gpu(rank));
    const auto make = [&] {
      std::vector<DeviceTensor<float>> tensors;
      for (std::size_t i = 0; i < kTensors; ++i) tensors.emplace_back(GpuWorld::gpu(rank), kCount);
      return tensors;
    };
    auto tensors = make();
    auto others = make();
    for (int number = 0; number < 40; ++number) {
      auto& memory = rank == 1 && number >= 10 && number < 20 ? others : tensors;
      const std::size_t skipped = number >= 20 && number < 25 ? 3 : 0;
      step(rank, engine, memory, stream.get(), number, skipped,
           training.results[static_cast<std::size_t>(rank)]);
    }
  });
  training.frozen_buckets = world.engine(0).statistics().frozen_buckets;
  training.thaws = world.engine(0).statistics().thaws;
  return training;
}

TEST_F(NcclGraphSteps, HaveTheBitsOfStepsWithoutGraphs) {
  const Training plain = train();
  EXPECT_EQ(double_calls("cuStreamBeginCapture"), 0U) << "off unless it is asked for";
  EXPECT_GT(plain.frozen_buckets, 20U);
  EXPECT_GT(plain.thaws, 0U);
  use_graphs(true);
  const Training with_graphs = train();
  EXPECT_EQ(with_graphs.results, plain.results);
  const std::uint64_t captures = double_calls("cuStreamEndCapture");
  EXPECT_GE(captures, 2U * 2U * 2U) << "two halves on two ranks, before and behind the thaw";
  EXPECT_GT(double_calls("cuGraphLaunch"), captures + 40U) << "hardly anything is replayed";
}

TEST_F(NcclGraphSteps, HaveTheSameBitsWhereOneRankCannotCapture) {
  const Training plain = train();
  use_graphs(true);
  for (const char* const call : {"cuStreamBeginCapture", "cuStreamEndCapture",
                                 "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    double_reset();
    double_fail(call, 2, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(train().results, plain.results) << call;
    EXPECT_GT(double_calls("cuGraphLaunch"), 10U) << call << ": no rank replays";
  }
}

TEST_F(NcclGraphSteps, AreRightWhereStreamsAreSlowAtRandom) {
  const Training plain = train();
  use_graphs(true);
  double_delay(5, 200);
  double_nccl_delay(6, 200);
  double_nccl_progress_polls(3);
  EXPECT_EQ(train().results, plain.results);
}

}  // namespace
}  // namespace hvd
