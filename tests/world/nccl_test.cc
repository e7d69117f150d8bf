// SPDX-License-Identifier: Apache-2.0
// The NCCL plane from submission to completion, over doubles of the driver and of NCCL, whose
// device memory is host memory.
#include <numeric>

#include "world/nccl_world.h"

namespace hvd {
namespace {

class NcclTensors : public NcclWorld, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(NcclTensors, AveragesSmallAndLargeTensorsStepAfterStep) {
  NcclRanks world(GetParam());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    for (int step = 0; step < 5; ++step) {
      auto tensors = gpu_tensors(rank, {1, 1000, 7, 500'000});
      const Status status = run_request(
          engine, gpu_request("step", rank, tensors, Allreduce{.op = ReduceOp::kAverage}));
      ASSERT_TRUE(status.is_ok()) << status.message();
      for (const auto& tensor : tensors) {
        for (const std::size_t i : {std::size_t{0}, tensor.size() / 2, tensor.size() - 1}) {
          ASSERT_NEAR(tensor[i], static_cast<float>(i) + (static_cast<float>(size) - 1) / 2, 0.1);
        }
      }
    }
  });
  EXPECT_GT(double_nccl_calls("ncclAllReduce"), 0);
  EXPECT_EQ(double_nccl_calls("ncclCommWindowRegister") > 0, world.size() > 1);
}

/// Each rank gives `counts[rank]` numbers, and gets those of all.
void expect_gathered(World& world, const std::vector<std::size_t>& counts) {
  world.run([&](int rank, Engine& engine) {
    auto tensors = gpu_tensors(rank, {counts[static_cast<std::size_t>(rank)]});
    Request request = gpu_request("gather", rank, tensors, Allgather{});
    request.tensors[0].output = nullptr;
    const auto handle = engine.submit(std::move(request));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    const Status status = engine.wait(handle.value(), soon());
    ASSERT_TRUE(status.is_ok()) << status.message();
    const auto gathered = engine.gathered(handle.value(), 0);
    ASSERT_TRUE(gathered.is_ok()) << gathered.status().message();
    const auto* floats = reinterpret_cast<const float*>(gathered.value()->begin());
    for (std::size_t from = 0; from < counts.size(); ++from) {
      for (std::size_t i = 0; i < counts[from]; ++i) {
        ASSERT_EQ(*floats++, static_cast<float>(from + i));
      }
    }
    engine.release(handle.value());
  });
}

TEST_P(NcclTensors, MovesRowsOfAnyNumber) {
  NcclRanks world(GetParam());
  std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()));
  for (std::size_t rank = 0; rank < counts.size(); ++rank) counts[rank] = rank * 3;
  expect_gathered(world, counts);
}

TEST_P(NcclTensors, GathersEqualPartsInOneCall) {
  NcclRanks world(GetParam());
  expect_gathered(world, std::vector<std::size_t>(static_cast<std::size_t>(world.size()), 100));
  EXPECT_EQ(double_nccl_calls("ncclAllGather"), world.size()) << "one on each rank";
  EXPECT_EQ(double_nccl_calls("ncclBroadcast"), 0);
}

TEST_P(NcclTensors, BroadcastsAndReduces) {
  NcclRanks world(GetParam());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    auto sent = gpu_tensors(rank, {10, 20});
    Status status = run_request(engine, gpu_request("b", rank, sent, Broadcast{size - 1}));
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(sent[1][19], static_cast<float>(size - 1 + 19));
    auto reduced = gpu_tensors(rank, {10, 20});
    status = run_request(engine,
                         gpu_request("r", rank, reduced, Reduce{.root = 0, .op = ReduceOp::kMax}));
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(reduced[1][19], static_cast<float>((rank == 0 ? size - 1 : rank) + 19));
  });
}

TEST_P(NcclTensors, AddsOrthogonalGradientsAndAveragesEqualOnes) {
  NcclRanks world(GetParam());
  const auto size = static_cast<std::size_t>(world.size());
  world.run([size](int rank, Engine& engine) {
    auto tensors = gpu_tensors(rank, {size, 3000});
    std::iota(tensors[1].begin(), tensors[1].end(), 0.0F);
    const auto& orthogonal = tensors[0];
    for (std::size_t i = 0; i < size; ++i) {
      orthogonal[i] = i == static_cast<std::size_t>(rank) ? static_cast<float>(i + 1) : 0;
    }
    const Status status =
        run_request(engine, gpu_request("a", rank, tensors, Allreduce{.op = ReduceOp::kAdasum}));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(orthogonal[i], i + 1, 1e-4);
    for (std::size_t i = 0; i < 3000; ++i) ASSERT_NEAR(tensors[1][i], i, 1e-2);
  });
  EXPECT_EQ(double_nccl_calls("ncclSend") > 0, size > 1);
}

TEST_P(NcclTensors, GoesOnWithoutARankThatHasJoinedWhateverItPacks) {
  NcclRanks world(GetParam());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    auto first = gpu_tensors(rank, {10, 20});
    ASSERT_TRUE(run_request(engine, gpu_request("first", rank, first)).is_ok());
    const int last = size - 1;
    for (int step = 0; rank != last && step < 2; ++step) {
      // As they are, packed beyond the bucket there is, and both.
      for (const auto& sizes :
           {std::vector<std::size_t>{2'000'000}, std::vector<std::size_t>(12, 200'000),
            std::vector<std::size_t>{1, 2, 3'000'000}}) {
        auto tensors = gpu_tensors(rank, sizes);
        const std::string name = std::to_string(sizes.size());
        const Status status = run_request(engine, gpu_request(name, rank, tensors));
        ASSERT_TRUE(status.is_ok()) << status.message();
        const float sum = static_cast<float>(last * (last - 1)) / 2;
        for (const auto& tensor : tensors) EXPECT_EQ(tensor[0], sum) << name;
      }
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
    auto again = gpu_tensors(rank, std::vector<std::size_t>(12, 250'000));
    const Status status = run_request(engine, gpu_request("again", rank, again));
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, NcclTensors,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{2, 2}));

TEST_F(NcclWorld, WaitsOnceInAStreamForWhatLeftTogether) {
  NcclRanks world({1});
  Engine& engine = world.engine(0);
  const OwnStream own(GpuWorld::gpu(0));
  const StreamHandle stream = own.get();
  const auto tensors = gpu_tensors(0, std::vector<std::size_t>(40, 8));
  double_hang(static_cast<CUstream>(stream));  // what the device has done needs no wait
  std::vector<Engine::Handle> handles;
  for (const auto& tensor : tensors) {
    Request request = gpu_request("t" + std::to_string(handles.size()), 0, tensor, stream);
    request.more = handles.size() + 1 < tensors.size();
    handles.push_back(engine.submit(std::move(request)).value());
  }
  for (const auto handle : handles) {
    ASSERT_TRUE(engine.wait_stream(handle, stream, soon()).is_ok());
  }
  const auto before = double_calls("cuStreamWaitEvent");
  EXPECT_TRUE(engine.wait_stream(handles, stream, soon()).is_ok());
  const auto waits = double_calls("cuStreamWaitEvent") - before;
  EXPECT_GE(waits, 1U);
  EXPECT_LT(waits, 10U) << "of 40 requests";
  double_release();
  for (const auto handle : handles) EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
  engine.release(handles);
  EXPECT_EQ(engine.wait_stream(handles, stream, soon()).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hvd
