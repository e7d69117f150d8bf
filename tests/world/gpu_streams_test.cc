// SPDX-License-Identifier: Apache-2.0
// Requests on GPU memory and the streams of frameworks: what waits for what, and what the host
// never waits for.
#include <gmock/gmock.h>

#include <atomic>
#include <string>

#include "doubles/cuda/double_cuda.h"
#include "world/gpu_world.h"

namespace hvd {
namespace {

using testing::Each;
using testing::HasSubstr;

class GpuStreams : public testing::Test {
 protected:
  void SetUp() override { double_reset(); }
  void TearDown() override { double_reset(); }
};

/// Nothing that is put into the stream runs before release().
class Gate {
 public:
  Gate(Gpu& gpu, StreamHandle stream) : gate_(gpu) {
    double_hang(static_cast<CUstream>(gate_.get()));
    const auto closed = gpu.record(gate_.get());
    EXPECT_TRUE(closed.is_ok());
    EXPECT_TRUE(gpu.make_wait(stream, *closed.value()).is_ok());
  }
  static void release() { double_release(); }

 private:
  OwnStream gate_;
};

TEST_F(GpuStreams, ReadInputsAfterTheirStreamAndGiveResultsInTheOrderOfAnother) {
  GpuWorld world({2});
  double_delay(7, 300);
  world.run([](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream makes(gpu);
    const OwnStream reads(gpu);
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> values(1'000, static_cast<float>(rank + step));
      const DeviceTensor<float> tensor(gpu, values.size());
      tensor.fill(values, makes.get());
      const auto handle = engine.submit(gpu_request("x", rank, tensor, makes.get()));
      ASSERT_TRUE(handle.is_ok()) << handle.status().message();
      ASSERT_TRUE(engine.wait_stream(handle.value(), reads.get(), soon()).is_ok());
      std::vector<float> copy(values.size());
      ASSERT_TRUE(
          gpu.copy(copy.data(), tensor.data(), copy.size() * sizeof(float), reads.get()).is_ok());
      engine.release(handle.value());
      reads.drain();
      EXPECT_THAT(copy, Each(static_cast<float>(1 + 2 * step))) << "step " << step;
    }
  });
}

TEST_F(GpuStreams, OneBatchWaitsForTheStreamsOfAllItsTensors) {
  GpuWorld world({2});
  double_delay(11, 300);
  world.run([](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    std::vector<std::unique_ptr<OwnStream>> streams;
    std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
    std::vector<std::vector<float>> values;
    std::vector<Engine::Handle> handles;
    for (int i = 0; i < 12; ++i) {
      if (i < 4) streams.push_back(std::make_unique<OwnStream>(gpu));
      const StreamHandle stream = streams[static_cast<std::size_t>(i) % 4]->get();
      values.emplace_back(500, static_cast<float>(i + rank));
      tensors.push_back(std::make_unique<DeviceTensor<float>>(gpu, values.back().size()));
      tensors.back()->fill(values.back(), stream);
      Request request = gpu_request("t" + std::to_string(i), rank, *tensors.back(), stream);
      request.more = true;
      handles.push_back(engine.submit(std::move(request)).value());
    }
    for (const auto handle : handles) EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    for (int i = 0; i < 12; ++i) {
      EXPECT_THAT(tensors[static_cast<std::size_t>(i)]->values(),
                  Each(static_cast<float>(2 * i + 1)));
      engine.release(handles[static_cast<std::size_t>(i)]);
    }
  });
}

TEST_F(GpuStreams, WhatComesIntoTheStreamAfterwardsHoldsNothingUp) {
  GpuWorld world({2});
  std::atomic<int> finished{0};
  world.run([&](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    for (const bool flushes : {false, true}) {
      const OwnStream stream(gpu);
      const DeviceTensor<float> tensor(gpu, std::vector<float>(10, 1.0F));
      Request request = gpu_request("x", rank, tensor, stream.get());
      request.more = flushes;
      const auto handle = engine.submit(std::move(request)).value();
      if (flushes) engine.flush();
      const Gate gate(gpu, stream.get());
      EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
      EXPECT_THAT(tensor.values(), Each(2.0F));
      engine.release(handle);
      // Memory is given back once nothing is held up any more.
      finished.fetch_add(1);
      const Deadline deadline = soon();
      while (finished.load() < (flushes ? 4 : 2) && !deadline.has_passed()) {
        std::this_thread::yield();
      }
      Gate::release();
    }
  });
}

TEST_F(GpuStreams, WaitsForInputsThatAreLate) {
  GpuWorld world({2});
  std::atomic<int> timeouts{0};
  world.run([&](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    const std::vector<float> values(10, 3.0F);
    const DeviceTensor<float> tensor(gpu, values.size());
    const Gate gate(gpu, stream.get());
    tensor.fill(values, stream.get());
    const auto handle = engine.submit(gpu_request("x", rank, tensor, stream.get())).value();
    const Status early = engine.wait(handle, Deadline::after(std::chrono::milliseconds(20)));
    EXPECT_EQ(early.code(), Code::kTimeout) << early.message();
    EXPECT_FALSE(engine.poll(handle).value());
    if (timeouts.fetch_add(1) == 1) Gate::release();
    EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    EXPECT_TRUE(engine.poll(handle).value());
    EXPECT_THAT(tensor.values(), Each(6.0F));
    engine.release(handle);
  });
}

TEST_F(GpuStreams, ARequestThatLeavesLaterHasAReadyPointOfItsOwn) {
  GpuWorld world({1});
  Engine& engine = world.engine(0);
  Gpu& gpu = GpuWorld::gpu(0);
  const OwnStream stream(gpu);
  const DeviceTensor<float> first(gpu, std::vector<float>(4, 1.0F));
  const auto before = engine.submit(gpu_request("a", 0, first, stream.get())).value();
  ASSERT_TRUE(engine.wait(before, soon()).is_ok());
  const std::vector<float> values(4, 5.0F);
  const DeviceTensor<float> second(gpu, values.size());
  const Gate gate(gpu, stream.get());
  second.fill(values, stream.get());
  const auto after =
      engine.submit(gpu_request("b", 0, second, stream.get(), Allreduce{ReduceOp::kSum, 2.0}))
          .value();
  EXPECT_EQ(engine.wait(after, Deadline::after(std::chrono::milliseconds(20))).code(),
            Code::kTimeout);
  Gate::release();
  EXPECT_TRUE(engine.wait(after, soon()).is_ok());
  EXPECT_THAT(second.values(), Each(10.0F));
}

TEST_F(GpuStreams, CpuAndGpuTensorsShareAStep) {
  GpuWorld world({2, 1});
  world.run([](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    for (int step = 0; step < 5; ++step) {
      std::vector<float> host(3'000, 1.0F);
      const DeviceTensor<float> device(gpu, host);
      std::vector<Request> requests;
      requests.push_back(allreduce_request("host", host));
      requests.push_back(gpu_request("device", rank, device, stream.get()));
      if (rank == 1) std::swap(requests[0], requests[1]);
      std::vector<Engine::Handle> handles;
      for (Request& request : requests) handles.push_back(engine.submit(request).value());
      for (const auto handle : handles) EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
      EXPECT_THAT(host, Each(3.0F));
      EXPECT_THAT(device.values(), Each(3.0F));
      for (const auto handle : handles) engine.release(handle);
    }
  });
}

TEST_F(GpuStreams, TwoProcessSetsWorkAtOnceInOppositeOrders) {
  GpuWorld world({3});
  double_delay(3, 200);
  world.run([](int rank, Engine& engine) {
    const std::vector<std::vector<int>> members = {{0, 1, 2}, {0, 2}};
    ASSERT_EQ(engine.add_process_set(members[1], soon()).value(), 1);
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    for (int step = 0; step < 10; ++step) {
      const DeviceTensor<float> world_tensor(gpu, std::vector<float>(5'000, 1.0F));
      const DeviceTensor<float> set_tensor(gpu, std::vector<float>(5'000, 1.0F));
      const std::vector<int> order = rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
      std::vector<Engine::Handle> handles;
      for (const int set : order) {
        if (set == 1 && rank == 1) continue;
        Request request =
            gpu_request("x", rank, set == 0 ? world_tensor : set_tensor, stream.get());
        request.process_set = set;
        handles.push_back(engine.submit(std::move(request)).value());
      }
      for (const auto handle : handles) {
        EXPECT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
        engine.release(handle);
      }
      stream.drain();
      EXPECT_THAT(world_tensor.values(), Each(3.0F));
      EXPECT_THAT(set_tensor.values(), Each(rank == 1 ? 1.0F : 2.0F));
    }
  });
}

TEST_F(GpuStreams, NoCallerWaitsForTheDevice) {
  GpuWorld world({2});
  constexpr int kSteps = 20;
  world.run([](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    const DeviceTensor<float> tensor(gpu, std::vector<float>(100, 0.0F));
    for (int step = 0; step < kSteps; ++step) {
      const auto handle = engine.submit(gpu_request("x", rank, tensor, stream.get())).value();
      ASSERT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
      engine.release(handle);
    }
    const auto last = engine.submit(gpu_request("x", rank, tensor, stream.get())).value();
    ASSERT_TRUE(engine.wait(last, soon()).is_ok());
  });
  EXPECT_EQ(double_calls("cuStreamSynchronize"), 0U);
  EXPECT_EQ(double_calls("cuCtxSynchronize"), 0U);
  // The threads that watch wait for each copy to the host and for each result, and nobody else.
  EXPECT_LE(double_calls("cuEventSynchronize"), 2U * 2U * (kSteps + 1U));
}

TEST_F(GpuStreams, TheDeviceEndsWhatStreamsWaitForBeforeTheJobEnds) {
  std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
  {
    GpuWorld world({2});
    for (int rank = 0; rank < 2; ++rank) {
      tensors.push_back(std::make_unique<DeviceTensor<float>>(GpuWorld::gpu(rank),
                                                              std::vector<float>(2'000'000, 1.0F)));
    }
    double_delay(5, 5'000);
    world.run([&](int rank, Engine& engine) {
      const OwnStream stream(GpuWorld::gpu(rank));
      const auto handle =
          engine
              .submit(
                  gpu_request("x", rank, *tensors[static_cast<std::size_t>(rank)], stream.get()))
              .value();
      ASSERT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
      engine.release(handle);
    });
  }
  for (const auto& tensor : tensors) {
    EXPECT_TRUE(tensor->values() == std::vector<float>(tensor->size(), 2.0F));
  }
}

TEST_F(GpuStreams, CallsBackWhenTheDeviceIsDone) {
  GpuWorld world({2});
  world.run([](int rank, Engine& engine) {
    const OwnStream stream(GpuWorld::gpu(rank));
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(50, 1.0F));
    Status seen(Code::kInternal, "not called");
    float value = 0;
    std::atomic<bool> called{false};
    Request request = gpu_request("x", rank, tensor, stream.get());
    request.on_complete = [&](const Status& status) {
      seen = status;
      value = tensor.data()[49];
      called.store(true);
    };
    const auto handle = engine.submit(std::move(request)).value();
    EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    const Deadline deadline = soon();
    while (!called.load() && !deadline.has_passed()) std::this_thread::yield();
    EXPECT_TRUE(seen.is_ok()) << seen.message();
    EXPECT_EQ(value, 2.0F);
  });
}

TEST_F(GpuStreams, ResultsThatTheLibraryMakesAreOnTheGpuUntilTheyAreReleased) {
  GpuWorld world({2});
  std::size_t before[2] = {};
  world.run([&](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    const DeviceTensor<float> tensor(gpu, std::vector<float>(6, static_cast<float>(rank)));
    before[rank] = double_allocated(rank);
    Request request = gpu_request("rows", rank, tensor, stream.get());
    request.operation = Allgather{};
    request.tensors[0].output = nullptr;
    const auto handle = engine.submit(std::move(request)).value();
    ASSERT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
    const GatherResult* result = engine.gathered(handle, 0).value();
    EXPECT_EQ(result->shape, (std::vector<std::int64_t>{12}));
    std::vector<float> copy(12);
    ASSERT_TRUE(gpu.copy(copy.data(), result->begin(), 48, stream.get()).is_ok());
    stream.drain();
    EXPECT_EQ(copy[5], 0.0F);
    EXPECT_EQ(copy[6], 1.0F);
    EXPECT_GT(double_allocated(rank), before[rank]);
    ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
    engine.release(handle);
    const Deadline deadline = soon();
    while (double_allocated(rank) > before[rank] && !deadline.has_passed()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(double_allocated(rank), before[rank]);
  });
}

TEST_F(GpuStreams, AResultLivesUntilTheStreamsThatWaitedForItHaveReadIt) {
  double_free_waits(0);
  GpuWorld world({1});
  Engine& engine = world.engine(0);
  Gpu& gpu = GpuWorld::gpu(0);
  const OwnStream stream(gpu);
  const DeviceTensor<float> tensor(gpu, std::vector<float>(6, 3.0F));
  const DeviceTensor<float> copy(gpu, std::vector<float>(6, 0.0F));
  Request request = gpu_request("rows", 0, tensor, stream.get());
  request.operation = Allgather{};
  request.tensors[0].output = nullptr;
  const auto handle = engine.submit(std::move(request)).value();
  ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
  ASSERT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
  const std::size_t before = double_allocated(0);
  {
    const Gate gate(gpu, stream.get());
    const GatherResult* result = engine.gathered(handle, 0).value();
    ASSERT_TRUE(gpu.copy(copy.data(), result->begin(), 24, stream.get()).is_ok());
    const auto waits = double_calls("wait");
    engine.release(handle);
    const Deadline deadline = soon();
    while (double_calls("wait") == waits && !deadline.has_passed()) std::this_thread::yield();
    EXPECT_GT(double_calls("wait"), waits) << "the memory waits for nobody";
    EXPECT_EQ(double_allocated(0), before);
    Gate::release();
  }
  stream.drain();
  EXPECT_EQ(copy.values(), std::vector<float>(6, 3.0F));
}

TEST_F(GpuStreams, NobodyWaitsForTheDeviceToReleaseAResult) {
  GpuWorld world({1});
  Gpu& gpu = GpuWorld::gpu(0);
  const OwnStream stream(gpu);
  const DeviceTensor<float> tensor(gpu, std::vector<float>(6, 1.0F));
  Request request = gpu_request("rows", 0, tensor, stream.get());
  request.operation = Allgather{};
  request.tensors[0].output = nullptr;
  const auto handle = world.engine(0).submit(std::move(request)).value();
  ASSERT_TRUE(world.engine(0).wait(handle, soon()).is_ok());
  const std::size_t before = double_allocated(0);
  const Gate gate(gpu, stream.get());
  world.engine(0).release(handle);  // returns, though the driver cannot free it yet
  EXPECT_EQ(double_allocated(0), before);
  std::vector<float> values(6, 1.0F);
  EXPECT_TRUE(run_request(world.engine(0), allreduce_request("cpu", values)).is_ok());
  Gate::release();
  const Deadline deadline = soon();
  while (double_allocated(0) == before && !deadline.has_passed()) std::this_thread::yield();
  EXPECT_LT(double_allocated(0), before);
}

}  // namespace
}  // namespace hvd
