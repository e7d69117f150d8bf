// SPDX-License-Identifier: Apache-2.0
// NCCL fails, hangs, or loses a rank: every rank gets an error that says so, and may begin anew.
#include <gmock/gmock.h>

#include <map>

#include "world/gpu_cases.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

class NcclFailures : public NcclWorld {
 protected:
  /// Adds on all ranks until each has an error; what each got. `dead` ends without shutdown once
  /// it has submitted its request number `dead_step`.
  std::vector<Status> run_until_error(World& world, int dead = -1, int dead_step = 0) {
    std::vector<Status> outcomes(static_cast<std::size_t>(world.size()));
    world.run([&](int rank, Engine& engine) {
      // Memory is lent to the engine until it has ended.
      const DeviceTensor<float>& tensor = tensors_.emplace(GpuWorld::gpu(rank), rank);
      for (int step = 0; step < 50; ++step) {
        Request request = gpu_request("x", rank, tensor, nullptr);
        if (rank == dead && step == dead_step) {
          EXPECT_TRUE(engine.submit(std::move(request)).is_ok());
          world.kill(dead);
          return;
        }
        Status status = run_request(engine, std::move(request));
        if (status.is_ok()) continue;
        outcomes[static_cast<std::size_t>(rank)] = std::move(status);
        return;
      }
    });
    return outcomes;
  }

  /// Steps work in a world made after all that.
  static void expect_new_world(std::vector<int> nodes) {
    double_nccl_reset();
    NcclRanks world(std::move(nodes));
    world.run([](int rank, Engine& engine) {
      const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(10, 1.0F));
      const Status status = run_request(engine, gpu_request("again", rank, tensor, nullptr));
      EXPECT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(tensor.values()[9], static_cast<float>(engine.world().size));
    });
    EXPECT_GT(calls("ncclAllReduce"), 0);
  }

 private:
  /// Tensors of the ranks, until the test ends.
  class Tensors {
   public:
    const DeviceTensor<float>& emplace(Gpu& gpu, int rank) {
      const Lock lock(mutex_);
      return by_rank_.try_emplace(rank, gpu, std::vector<float>(1000, 1.0F)).first->second;
    }

   private:
    Mutex mutex_;
    std::map<int, DeviceTensor<float>> by_rank_ HVD_GUARDED_BY(mutex_);
  };
  Tensors tensors_;
};

TEST_F(NcclFailures, OfOneRanksFirstCallIsAnErrorOnAll) {
  for (const int rank : {0, 1}) {
    double_nccl_fail("ncclCommInitRankConfig", 1, 2, rank);  // ncclSystemError
    {
      NcclRanks world({2, 1});
      for (const Status& status : run_until_error(world)) EXPECT_FALSE(status.is_ok());
    }
    expect_new_world({2, 1});
  }
}

TEST_F(NcclFailures, OfACollectiveCallIsAnErrorOnAll) {
  double_nccl_fail("ncclAllReduce", 4, 3, 1);  // ncclInternalError
  {
    NcclRanks world({2, 1});
    const auto outcomes = run_until_error(world);
    for (const Status& status : outcomes) EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(outcomes[1].message(), HasSubstr("allreduce: internal error"));
  }
  expect_new_world({2, 1});
}

TEST_F(NcclFailures, ThatComeLateAreErrorsOnAll) {
  double_nccl_async_error(0, 3, 6);  // ncclRemoteError
  {
    NcclRanks world({3});
    const auto outcomes = run_until_error(world);
    for (const Status& status : outcomes) EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(outcomes[0].message(), HasSubstr("remote process exited"));
  }
  expect_new_world({3});
}

TEST_F(NcclFailures, OfAPeerWhoseKernelHangsNameIt) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent ? "NCCL does not notice" : "NCCL notices");
    double_nccl_silent_deaths(silent ? 1 : 0);
    double_nccl_hang(2, 4);
    {
      NcclRanks world({2, 1});
      const auto outcomes = run_until_error(world, 2, 3);
      for (const int rank : {0, 1}) {
        const Status& status = outcomes[static_cast<std::size_t>(rank)];
        EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
        EXPECT_THAT(status.message(), HasSubstr("rank 2 "));
      }
    }
    expect_new_world({2, 1});
  }
}

TEST_F(NcclFailures, OfTheRankThatMadeTheIdNameIt) {
  double_nccl_hang(0, 4);
  {
    NcclRanks world({1, 2});
    const auto outcomes = run_until_error(world, 0, 3);
    for (const int rank : {1, 2}) {
      const Status& status = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      EXPECT_THAT(status.message(), HasSubstr("rank 0 "));
    }
  }
  expect_new_world({1, 2});
}

TEST_F(NcclFailures, TwoRanksOnOneGpuAreToldTheRemedy) {
  NcclRanks world({gpus_of_double().count().value() + 1});
  for (const Status& status : run_until_error(world)) {
    EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(status.message(), HasSubstr("rank 0"));
    EXPECT_THAT(status.message(), HasSubstr("HVD_SHARE_GPU"));
  }
}

TEST_F(NcclFailures, GpusWithoutPeerAccessAreToldOfOnce) {
  double_peers(0);
  testing::internal::CaptureStderr();
  expect_new_world({1, 2, 2});
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string told = "ranks 1 and 2 on host ";
  const std::size_t first = text.find(told);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_THAT(text.substr(first), HasSubstr("GPUs without peer access"));
  EXPECT_EQ(text.find("peer access", text.find("peer access") + 1), std::string::npos) << text;
}

TEST_F(NcclFailures, ATensorOnAnotherGpuIsRefusedOnItsRank) {
  NcclRanks world({2});
  world.run([](int rank, Engine& engine) {
    const DeviceTensor<float> first(GpuWorld::gpu(rank), std::vector<float>(10, 1.0F));
    EXPECT_TRUE(run_request(engine, gpu_request("first", rank, first, nullptr)).is_ok());
  });
  const DeviceTensor<float> elsewhere(GpuWorld::gpu(3), std::vector<float>(10, 1.0F));
  const auto handle = world.engine(1).submit(gpu_request("x", 3, elsewhere, nullptr));
  EXPECT_FALSE(handle.is_ok());
  EXPECT_THAT(handle.status().message(), HasSubstr("rank 1"));
  EXPECT_THAT(handle.status().message(), HasSubstr("GPU 3"));
}

}  // namespace
}  // namespace hvd
