// SPDX-License-Identifier: Apache-2.0
// Requests on GPU memory that cannot run, ranks that stop in the middle, and ranks that join.
#include <gmock/gmock.h>

#include <atomic>
#include <string>

#include "doubles/cuda/double_cuda.h"
#include "world/gpu_world.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class GpuFaults : public testing::Test {
 protected:
  void SetUp() override { double_reset(); }
  void TearDown() override { double_reset(); }
};

void expect_refused(const Result<Engine::Handle>& submitted, Code code, const std::string& words) {
  ASSERT_FALSE(submitted.is_ok());
  EXPECT_EQ(submitted.status().code(), code) << submitted.status().message();
  EXPECT_THAT(submitted.status().message(), AllOf(HasSubstr("rank 0"), HasSubstr(words)));
}

TEST_F(GpuFaults, AreRefusedWithoutGpus) {
  World world({1});
  const DeviceTensor<float> tensor(GpuWorld::gpu(0), 4);
  expect_refused(world.engine(0).submit(gpu_request("x", 0, tensor, nullptr)), Code::kUnsupported,
                 "without GPUs");
}

TEST_F(GpuFaults, AreRefusedOnStreamsThatCannotServeThem) {
  GpuWorld world({1});
  Gpu& gpu = GpuWorld::gpu(0);
  const DeviceTensor<float> tensor(gpu, 4);
  const OwnStream elsewhere(GpuWorld::gpu(1));
  expect_refused(world.engine(0).submit(gpu_request("x", 0, tensor, elsewhere.get())),
                 Code::kInvalidArgument, "'x'");
  const OwnStream captured(gpu);
  ASSERT_TRUE(gpu.begin_capture(captured.get()).is_ok());
  expect_refused(world.engine(0).submit(gpu_request("x", 0, tensor, captured.get())),
                 Code::kUnsupported, "'x'");
  gpu.destroy_graph(gpu.end_capture(captured.get()).value());
}

/// The kernels would fault, and with them all that this process does on the GPU.
TEST_F(GpuFaults, AreRefusedAtAddressesThatElementsCannotHave) {
  GpuWorld world({1});
  const DeviceTensor<std::byte> memory(GpuWorld::gpu(0), 64);
  const DeviceTensor<float> tensor(GpuWorld::gpu(0), 4);
  Request request = gpu_request("x", 0, tensor, nullptr);
  for (const bool is_input : {true, false}) {
    request.tensors[0].input = is_input ? memory.data() + 6 : memory.data();
    request.tensors[0].output = is_input ? memory.data() : memory.data() + 6;
    expect_refused(
        world.engine(0).submit(request), Code::kInvalidArgument,
        format_text("allreduce 'x': the {} is at {}; a GPU reaches float32 (4 bytes)",
                    is_input ? "input" : "output", static_cast<void*>(memory.data() + 6)));
  }
  EXPECT_TRUE(run_request(world.engine(0), gpu_request("x", 0, tensor, nullptr)).is_ok());
}

TEST_F(GpuFaults, AProcessSetStaysOnOneGpuOfARank) {
  GpuWorld world({1});
  Engine& engine = world.engine(0);
  const DeviceTensor<float> first(GpuWorld::gpu(0), 4);
  const DeviceTensor<float> other(GpuWorld::gpu(1), 4);
  ASSERT_TRUE(run_request(engine, gpu_request("a", 0, first, nullptr)).is_ok());
  expect_refused(engine.submit(gpu_request("b", 1, other, nullptr)), Code::kInvalidArgument,
                 "works on GPU 0");
  ASSERT_TRUE(run_request(engine, gpu_request("c", 0, first, nullptr)).is_ok());
}

TEST_F(GpuFaults, StreamsCannotWaitForCpuMemory) {
  GpuWorld world({1});
  std::vector<float> values(4, 1.0F);
  const auto handle = world.engine(0).submit(allreduce_request("x", values)).value();
  const Status status = world.engine(0).wait_stream(handle, nullptr, soon());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("call hvd_wait()"));
  EXPECT_TRUE(world.engine(0).wait(handle, soon()).is_ok());
}

TEST_F(GpuFaults, RanksThatDisagreeAboutTheMemoryAreNamed) {
  GpuWorld world({2});
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(4, 1.0F);
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), values);
    const Status status = run_request(engine, rank == 0 ? allreduce_request("x", values)
                                                        : gpu_request("x", rank, tensor, nullptr));
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0 has it in CPU memory"),
                                        HasSubstr("rank 1 has it on a CUDA GPU")));
    EXPECT_TRUE(run_request(engine, gpu_request("y", rank, tensor, nullptr)).is_ok());
  });
}

TEST_F(GpuFaults, AFailureOfTheDeviceIsThatOfEveryRank) {
  GpuWorld world({2});
  double_fail("cuMemcpyAsync", 3, CUDA_ERROR_LAUNCH_FAILED);
  std::atomic<int> elsewhere{0};
  world.run([&](int rank, Engine& engine) {
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(10, 1.0F));
    Status status;
    for (int step = 0; step < 10 && status.is_ok(); ++step) {
      status = run_request(engine, gpu_request("x", rank, tensor, nullptr));
    }
    if (status.code() == Code::kPeerLost) elsewhere.fetch_add(1);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("failed in a collective"), HasSubstr("rank "),
                                        HasSubstr("GPU"), HasSubstr("cuMemcpyAsync")));
  });
  EXPECT_EQ(elsewhere.load(), 1);
}

TEST_F(GpuFaults, ARequestThatWaitsForALostPeerFails) {
  GpuWorld world({1, 1});
  std::vector<std::unique_ptr<OwnStream>> streams;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(std::make_unique<OwnStream>(GpuWorld::gpu(rank)));
  }
  world.run([&](int rank, Engine& engine) {
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(10, 1.0F));
    EXPECT_TRUE(run_request(engine, gpu_request("first", rank, tensor, nullptr)).is_ok());
  });
  world.run([&](int rank, Engine& engine) {
    if (rank == 1) {
      world.kill(1);
      return;
    }
    const StreamHandle stream = streams[0]->get();
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(10, 1.0F));
    const auto handle = engine.submit(gpu_request("alone", rank, tensor, stream));
    const Status status =
        handle.is_ok() ? engine.wait_stream(handle.value(), stream, soon()) : handle.status();
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank 1"));
    if (!handle.is_ok()) return;
    EXPECT_EQ(engine.wait(handle.value(), soon()).code(), Code::kPeerLost);
  });
}

/// As JoinWorld: rank r submits r + 1 uses of "x" and then joins.
TEST_F(GpuFaults, OthersGoOnWithoutTheMemoryOfARankThatJoined) {
  GpuWorld world({2, 1});
  for (const std::size_t count : {std::size_t{3}, std::size_t{2'500'000}}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kProduct}) {
      world.run([&](int rank, Engine& engine) {
        Gpu& gpu = GpuWorld::gpu(rank);
        const OwnStream stream(gpu);
        for (int use = 0; use <= rank; ++use) {
          const DeviceTensor<float> tensor(gpu, std::vector<float>(count, -2.0F));
          const auto status =
              run_request(engine, gpu_request("x", rank, tensor, stream.get(), Allreduce{op}));
          ASSERT_TRUE(status.is_ok()) << status.message();
          float expected = -2.0F;
          for (int other = use + 1; other < 3; ++other) {
            if (op == ReduceOp::kSum) expected += -2.0F;
            if (op == ReduceOp::kProduct) expected *= -2.0F;
          }
          EXPECT_TRUE(tensor.values() == std::vector<float>(count, expected)) << "use " << use;
        }
        EXPECT_EQ(engine.join(0, false, soon()).value(), 2);
      });
    }
  }
}

TEST_F(GpuFaults, ARankWithoutAnyTensorJoinsAndTakesPart) {
  GpuWorld world({3});
  world.run([](int rank, Engine& engine) {
    std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
    std::vector<Engine::Handle> handles;
    for (int i = 0; i < 6 && rank != 1; ++i) {
      tensors.push_back(std::make_unique<DeviceTensor<float>>(
          GpuWorld::gpu(rank), std::vector<float>(1'000, static_cast<float>(i))));
      Request request = gpu_request("t" + std::to_string(i), rank, *tensors.back(), nullptr,
                                    Allreduce{ReduceOp::kAverage});
      handles.push_back(engine.submit(std::move(request)).value());
    }
    for (const auto handle : handles) EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    EXPECT_TRUE(engine.join(0, true, soon()).is_ok());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_THAT(tensors[i]->values(), Each(static_cast<float>(i)));
    }
  });
}

TEST_F(GpuFaults, ALostPeerIsToldOfWhileADeviceHangs) {
  GpuWorld world({1, 1});
  std::vector<std::unique_ptr<OwnStream>> streams;
  std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(std::make_unique<OwnStream>(GpuWorld::gpu(rank)));
    tensors.push_back(std::make_unique<DeviceTensor<float>>(GpuWorld::gpu(rank), 8));
  }
  double_hang(static_cast<CUstream>(streams[0]->get()));
  std::atomic<int> submitted{0};
  world.run([&](int rank, Engine& engine) {
    const auto index = static_cast<std::size_t>(rank);
    const StreamHandle stream = streams[index]->get();
    tensors[index]->fill(std::vector<float>(8, 1.0F), stream);
    const auto handle = engine.submit(gpu_request("x", rank, *tensors[index], stream));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    submitted.fetch_add(1);
    if (rank == 1) {
      const Deadline deadline = soon();
      while (submitted.load() < 2 && !deadline.has_passed()) std::this_thread::yield();
      world.kill(1);
      return;
    }
    const Status status = engine.wait(handle.value(), soon());
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    engine.release(handle.value());
  });
  double_release();
}

}  // namespace
}  // namespace hvd
