// SPDX-License-Identifier: Apache-2.0
// What a training step over NCCL costs in calls, and what it does beside allreduces of its own.
#include <atomic>
#include <thread>

#include "backends/nccl/nccl_plan.h"
#include "world/gpu_cases.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

/// Gradients of one rank, and the stream that makes them.
class Gradients {
 public:
  Gradients(int rank, std::size_t tensors, std::size_t count)
      : rank_(rank), stream_(GpuWorld::gpu(rank)) {
    for (std::size_t i = 0; i < tensors; ++i) {
      tensors_.emplace_back(GpuWorld::gpu(rank), std::vector<float>(count));
      values_.emplace_back(count);
    }
  }

  /// Makes gradients, submits all as the list of one framework would, and waits on the host until
  /// they are enqueued, in the stream for the rest.
  void step(Engine& engine, float value) {
    std::vector<Engine::Handle> handles;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      values_[i].assign(values_[i].size(), value + static_cast<float>(i));
      tensors_[i].fill(values_[i], stream_.get());
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Request request =
          gpu_request("gradient " + std::to_string(i), rank_, tensors_[i], stream_.get());
      request.more = i + 1 < tensors_.size();
      handles.push_back(engine.submit(std::move(request)).value());
    }
    for (const Engine::Handle handle : handles) {
      const Status status = engine.wait_stream(handle, stream_.get(), soon());
      EXPECT_TRUE(status.is_ok()) << status.message();
      engine.release(handle);
    }
  }
  void expect_sums(float value, int size) {
    stream_.drain();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const float sum = static_cast<float>(size) * (value + static_cast<float>(i));
      EXPECT_EQ(tensors_[i].values(), std::vector<float>(values_[i].size(), sum)) << "tensor " << i;
    }
  }
  CUstream stream() const { return static_cast<CUstream>(stream_.get()); }

 private:
  int rank_;
  OwnStream stream_;
  std::vector<DeviceTensor<float>> tensors_;
  std::vector<std::vector<float>> values_;
};

/// Runs `steps` steps of 40 small gradients.
void train(World& world, int steps) {
  world.run([&](int rank, Engine& engine) {
    Gradients gradients(rank, 40, 100);
    for (int step = 0; step < steps; ++step) {
      const auto value = static_cast<float>(step % 7);
      gradients.step(engine, value);
      gradients.expect_sums(value, world.size());
    }
  });
}

class NcclSteps : public NcclWorld {};

TEST_F(NcclSteps, RegisterMemoryOnce) {
  NcclRanks world({2});
  train(world, 3);
  const int windows = calls("ncclCommWindowRegister");
  const int allocations = calls("ncclMemAlloc");
  EXPECT_GT(windows + calls("ncclCommRegister"), 0);
  const int communicators = calls("ncclCommInitRankConfig");
  train(world, 10);
  EXPECT_EQ(calls("ncclCommWindowRegister"), windows);
  EXPECT_EQ(calls("ncclMemAlloc"), allocations);
  EXPECT_EQ(calls("ncclCommInitRankConfig"), communicators);
}

TEST_F(NcclSteps, MakeNoWindowsThatConnectNodes) {
  double_nccl_set_version(22903);
  {
    NcclRanks world({2});
    train(world, 3);
  }
  const int of_one_node = calls("ncclCommWindowRegister");
  EXPECT_GT(of_one_node, 0);
  NcclRanks world({1, 1});
  train(world, 3);
  EXPECT_EQ(calls("ncclCommWindowRegister"), of_one_node);
  EXPECT_GT(calls("ncclCommRegister"), 0);
}

TEST_F(NcclSteps, RegisterNothingForOneRank) {
  NcclRanks world({1});
  train(world, 3);
  EXPECT_GT(calls("ncclCommInitRankConfig"), 0);
  EXPECT_EQ(calls("ncclCommWindowRegister") + calls("ncclCommRegister"), 0);
}

TEST_F(NcclSteps, PackSmallGradientsIntoFewCallsAndLaunches) {
  NcclRanks world({2});
  train(world, 8);
  const int steps = 20;
  const auto batches = [&] {
    return world.engine(0).statistics().batches + world.engine(1).statistics().batches;
  };
  const auto before = batches();
  const int reduces = calls("ncclAllReduce");
  const std::uint64_t launches = double_calls("cuLaunchKernel");
  train(world, steps);
  const auto buckets = batches() - before;
  EXPECT_GE(buckets, static_cast<std::uint64_t>(steps * 2));
  EXPECT_LE(buckets, static_cast<std::uint64_t>(steps * 2 * 10)) << "hardly anything is packed";
  EXPECT_LE(calls("ncclAllReduce") - reduces, static_cast<int>(buckets));
  EXPECT_LE(double_calls("cuLaunchKernel") - launches, buckets * 4) << "two each way at most";
}

TEST_F(NcclSteps, NeverWaitForTheDeviceOnTheHost) {
  NcclRanks world({2});
  train(world, 2);
  const std::uint64_t host_waits = double_calls("cuStreamSynchronize") +
                                   double_calls("cuCtxSynchronize") + double_calls("cuMemcpy");
  world.run([&](int rank, Engine& engine) {
    Gradients gradients(rank, 40, 100);
    for (int step = 0; step < 10; ++step) gradients.step(engine, 1.0F);
    gradients.expect_sums(1.0F, 2);
  });
  EXPECT_EQ(double_calls("cuStreamSynchronize") + double_calls("cuCtxSynchronize") +
                double_calls("cuMemcpy"),
            host_waits);
}

TEST_F(NcclSteps, EnqueueWhileTheDeviceIsBusy) {
  NcclRanks world({2});
  train(world, 2);
  world.run([&](int rank, Engine& engine) {
    Gradients gradients(rank, 5, 10);
    double_hang(gradients.stream());
    gradients.step(engine, 2.0F);  // returns although no input has been made
    double_release();
    gradients.expect_sums(2.0F, 2);
  });
}

TEST_F(NcclSteps, CallBackWhenTheDeviceIsDone) {
  NcclRanks world({2});
  std::atomic<int> called{0};
  world.run([&](int rank, Engine& engine) {
    const OwnStream stream(GpuWorld::gpu(rank));
    const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(50, 1.0F));
    float seen = 0;
    Request request = gpu_request("x", rank, tensor, stream.get());
    request.on_complete = [&](const Status& status) {
      EXPECT_TRUE(status.is_ok()) << status.message();
      seen = tensor.data()[49];
      called.fetch_add(1);
    };
    double_hang(static_cast<CUstream>(stream.get()));
    const auto handle = engine.submit(std::move(request)).value();
    EXPECT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
    EXPECT_FALSE(engine.poll(handle).value()) << "a stream of ours holds it, no more";
    EXPECT_EQ(seen, 0.0F);
    // A barrier of hosts: neither device goes on before both have looked.
    std::vector<float> on_host(1);
    EXPECT_TRUE(run_request(engine, allreduce_request("both", on_host)).is_ok());
    double_release();
    for (const Deadline deadline = soon(); called.load() < 2 && !deadline.has_passed();) {
      std::this_thread::yield();
    }
    EXPECT_EQ(called.load(), 2) << "nobody waits for it";
    EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    EXPECT_EQ(seen, 2.0F);
    engine.release(handle);
  });
}

TEST_F(NcclSteps, AreRightWhereStreamsAreSlowAtRandom) {
  double_delay(3, 300);
  double_nccl_delay(4, 300);
  double_nccl_progress_polls(3);
  NcclRanks world({2, 2});
  train(world, 6);
}

TEST_F(NcclSteps, MixTensorsOfBothKinds) {
  NcclRanks world({3});
  world.run([&](int rank, Engine& engine) {
    Gradients gradients(rank, 7, 33);
    std::vector<float> on_host(50);
    for (int step = 0; step < 10; ++step) {
      on_host.assign(on_host.size(), 1.0F);
      const auto handle = engine.submit(allreduce_request("host", on_host)).value();
      gradients.step(engine, 3.0F);
      EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
      engine.release(handle);
      EXPECT_EQ(on_host[49], 3.0F);
      gradients.expect_sums(3.0F, 3);
    }
  });
}

TEST_F(NcclSteps, CastALargeTensorThroughABucketOfBoundedSize) {
  NcclRanks world({2});
  const std::size_t part = NcclPlanOptions().part_bytes;
  const std::size_t count = part / 2 + 5000;  // float32 that travels as bfloat16
  const std::size_t before = double_allocated(1);
  world.run([&](int rank, Engine& engine) {
    const DeviceTensor<float> large(GpuWorld::gpu(rank), count);
    for (std::size_t i = 0; i < count; ++i) large.data()[i] = static_cast<float>(i % 5 + 1);
    const Allreduce average{.op = ReduceOp::kAverage, .postscale = 2.0, .wire = Wire::kBfloat16};
    const Status status = run_request(engine, gpu_request("g", rank, large, nullptr, average));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(large.data()[i], static_cast<float>(2 * (i % 5 + 1))) << i;
    }
  });
  EXPECT_EQ(calls("ncclAllReduce"), 4) << "two parts on both ranks";
  EXPECT_EQ(double_allocated(1) - before, part) << "what is left is the bucket";
}

TEST_F(NcclSteps, OfTwoSetsMayBeSubmittedInOppositeOrders) {
  NcclRanks world({4});
  world.run([&](int rank, Engine& engine) {
    const int left = engine.add_process_set({0, 1, 2}, soon()).value();
    const int right = engine.add_process_set({1, 2, 3}, soon()).value();
    const OwnStream stream(GpuWorld::gpu(rank));
    for (int step = 0; step < 20; ++step) {
      DeviceTensor<float> a(GpuWorld::gpu(rank), std::vector<float>(20, 1.0F));
      DeviceTensor<float> b(GpuWorld::gpu(rank), std::vector<float>(20, 1.0F));
      std::vector<Engine::Handle> handles;
      for (const int set : rank == 1 ? std::vector{left, right} : std::vector{right, left}) {
        if ((set == left && rank == 3) || (set == right && rank == 0)) continue;
        Request request = gpu_request("x", rank, set == left ? a : b, stream.get());
        request.process_set = set;
        handles.push_back(engine.submit(std::move(request)).value());
      }
      for (const Engine::Handle handle : handles) {
        const Status status = engine.wait(handle, soon());
        EXPECT_TRUE(status.is_ok()) << status.message();
        engine.release(handle);
      }
      EXPECT_EQ(a.values()[19], rank == 3 ? 1.0F : 3.0F);
      EXPECT_EQ(b.values()[19], rank == 0 ? 1.0F : 3.0F);
    }
  });
}

TEST_F(NcclSteps, GoOnWithoutARankThatHasJoined) {
  NcclRanks world({3});
  world.run([&](int rank, Engine& engine) {
    Gradients gradients(rank, 4, 100);
    for (int step = 0; step <= rank * 2; ++step) gradients.step(engine, 1.0F);
    const auto last = engine.join(0, false, soon());
    EXPECT_TRUE(last.is_ok()) << last.status().message();
    // The last steps of each rank: with itself and those that have not joined.
    gradients.expect_sums(1.0F, 3 - rank);
  });
}

}  // namespace
}  // namespace hvd
