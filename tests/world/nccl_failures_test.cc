// SPDX-License-Identifier: Apache-2.0
// NCCL fails, hangs, or loses a rank: every rank gets an error that says so, and may begin anew.
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "world/nccl_world.h"

namespace hvd {
namespace {

using testing::AllOf;
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

  static Status sum(int rank, Engine& engine, const std::string& name) {
    const auto tensors = gpu_tensors(rank, {5, 100'000});
    return run_request(engine, gpu_request(name, rank, tensors));
  }

  /// The last rank ends when all ranks have a collective in their streams that it never runs.
  static void expect_loss_of_the_last(World& world) {
    const int last = world.size() - 1;
    world.run([&](int rank, Engine& engine) {
      ASSERT_TRUE(sum(rank, engine, "first").is_ok());
      if (rank == last) {
        double_nccl_hang(last, 1);
        const auto tensors = gpu_tensors(rank, {5, 100'000});
        const auto handle = engine.submit(gpu_request("second", rank, tensors));
        ASSERT_TRUE(handle.is_ok());
        EXPECT_TRUE(engine.wait_stream(handle.value(), nullptr, soon()).is_ok());
        world.kill(rank);
        return;
      }
      const Status status = sum(rank, engine, "second");
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      EXPECT_THAT(status.message(), HasSubstr(format_text("rank {} on host ", last)));
    });
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

TEST_F(NcclFailures, ToBeginAtAllIsToldWithTheLastWordsOfNccl) {
  double_nccl_fail("ncclGetUniqueId", 1, ncclSystemError, -1);
  NcclRanks world({1, 1});
  world.run([](int rank, Engine& engine) {
    EXPECT_THAT(sum(rank, engine, "first").message(),
                AllOf(HasSubstr("NCCL gives no unique id: unhandled system error"),
                      HasSubstr("(ncclGetUniqueId: ordered by the test)")));
  });
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
    for (const Status& status : outcomes) {
      EXPECT_EQ(status.code(), Code::kPeerLost);
      EXPECT_THAT(status.message(), HasSubstr("rank 0 "));
    }
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

/// What one rank cannot do, all hear of at once, with its name and host.
void expect_told(const Status& status, const std::string& reason) {
  EXPECT_FALSE(status.is_ok());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 on host "), HasSubstr(reason)));
}

TEST_F(NcclFailures, OfOneRankToConnectReachesTheOthers) {
  for (const auto code :
       {ncclSystemError, ncclUnhandledCudaError, ncclInternalError, ncclInvalidArgument}) {
    NcclRanks world({1, 2});
    double_nccl_fail("ncclCommInitRankConfig", 1, code, 1);
    world.run([](int rank, Engine& engine) {
      expect_told(sum(rank, engine, "first"), "cannot make a communicator");
    });
  }
}

TEST_F(NcclFailures, OfTheSystemWhileRanksConnectIsNoLossAndSaysWhatToTry) {
  NcclRanks world({1, 2});
  double_nccl_fail("ncclCommInitRankConfig", 1, ncclSystemError, 1);
  world.run([](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "first");
    expect_told(status, "NCCL_DEBUG=INFO");
    EXPECT_THAT(status.message(), HasSubstr("ordered by the test")) << "NCCL's own words";
    EXPECT_EQ(status.code(), rank == 1 ? Code::kSystem : Code::kPeerLost);
  });
}

TEST_F(NcclFailures, OfTheSystemWhileItIsUnderWayIsNoLossByItself) {
  NcclRanks world({1, 1, 1});
  double_nccl_silent_deaths(1);
  world.run([&](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 1) double_nccl_async_error(1, 1, ncclSystemError);
    const Status status = sum(rank, engine, "second");
    expect_told(status, "NCCL_DEBUG=INFO");
    EXPECT_EQ(status.code(), rank == 1 ? Code::kSystem : Code::kPeerLost);
  });
}

TEST_F(NcclFailures, OfADeviceIsToldInTheWordsOfItsDriver) {
  NcclRanks world({1, 1});
  world.run([](int rank, Engine& engine) { ASSERT_TRUE(sum(rank, engine, "first").is_ok()); });
  const int before = calls("ncclAllReduce");
  double_nccl_block("ncclAllReduce", 1, 0, 1);
  double_nccl_fail("ncclAllReduce", 1, ncclUnhandledCudaError, 1);
  world.run([&](int rank, Engine& engine) {
    const auto tensors = gpu_tensors(rank, {5, 100'000});
    const auto handle = engine.submit(gpu_request("second", rank, tensors));
    ASSERT_TRUE(handle.is_ok());
    if (rank == 1) {
      const Deadline deadline = soon();
      while (calls("ncclAllReduce") < before + world.size() && !deadline.has_passed()) {
        std::this_thread::yield();
      }
      double_spoil(1, CUDA_ERROR_LAUNCH_FAILED);
      double_nccl_release();
    }
    const Status status = engine.wait(handle.value(), soon());
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 on host "), HasSubstr("unhandled cuda"),
                                        HasSubstr("GPU 1 "), HasSubstr("CUDA_ERROR_LAUNCH")));
  });
}

TEST_F(NcclFailures, OfTheSystemBecauseARankIsLostNamesTheRank) {
  NcclRanks world({1, 1, 1});
  double_nccl_death_code(ncclSystemError);
  expect_loss_of_the_last(world);
}

TEST_F(NcclFailures, OfARankFreeTheOthersFromTheirKernels) {
  {
    NcclRanks world({1, 1, 1});
    double_nccl_silent_deaths(1);
    expect_loss_of_the_last(world);
  }
  expect_new_world({1, 1});
}

TEST_F(NcclFailures, OfOneRankWhileAllConnectReachesTheOthers) {
  for (const bool comes_late : {false, true}) {
    SCOPED_TRACE(comes_late ? "rank 0 finds nobody to connect to" : "all connect");
    NcclRanks world({1, 2});
    double_nccl_fail("ncclCommGetAsyncError", 1, ncclUnhandledCudaError, 1);
    if (comes_late) double_nccl_block("ncclCommInitRankConfig", 1, 700, 0);
    world.run([](int rank, Engine& engine) {
      expect_told(sum(rank, engine, "first"), "cannot ask for its state");
    });
  }
}

TEST_F(NcclFailures, OfOneRanksStreamReachesTheOthers) {
  NcclRanks world({1, 1});
  std::atomic<int> elsewhere{0};
  double_fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY);
  world.run([&elsewhere](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "first");
    EXPECT_THAT(status.message(), AllOf(HasSubstr("on host "), HasSubstr("cuStreamCreate")));
    if (status.code() == Code::kPeerLost) elsewhere.fetch_add(1);
  });
  EXPECT_EQ(elsewhere.load(), 1) << "the call of one rank failed";
}

TEST_F(NcclFailures, OfOneRanksMemoryForABucketReachesTheOthers) {
  NcclRanks world({1, 1});
  std::atomic<int> elsewhere{0};
  double_nccl_fail("ncclMemAlloc", 1, ncclUnhandledCudaError, -1);
  world.run([&elsewhere](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "first");
    EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("on host "), HasSubstr("no memory for a bucket")));
    if (status.code() == Code::kPeerLost) elsewhere.fetch_add(1);
  });
  EXPECT_EQ(elsewhere.load(), 1) << "the call of one rank failed";
}

TEST_F(NcclFailures, OfOneRanksWindowReachesTheOthersWithTheRemedy) {
  for (const char* const when : {"ncclCommWindowRegister", "ncclCommWindowRegister later"}) {
    for (const auto code : {ncclUnhandledCudaError, ncclInternalError, ncclRemoteError}) {
      SCOPED_TRACE(testing::Message() << when << ": " << code);
      NcclRanks world({1, 1});
      double_nccl_fail(when, 1, code, 1);
      world.run([](int rank, Engine& engine) {
        const Status status = sum(rank, engine, "first");
        expect_told(status, "cannot register a bucket of 400384 bytes: NCCL: ");
        EXPECT_THAT(status.message(), HasSubstr("HVD_NCCL_REGISTER=0"));
      });
    }
  }
}

TEST_F(NcclFailures, OfOneRanksRegistrationReachesTheOthersWithTheRemedy) {
  NcclRanks world({1, 1});
  double_nccl_fail("ncclCommWindowRegister", 1, ncclInvalidUsage, 0);
  double_nccl_fail("ncclCommWindowRegister", 1, ncclInvalidUsage, 1);
  double_nccl_fail("ncclCommRegister", 1, ncclInternalError, 1);
  world.run([](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    const Status status = sum(rank, engine, "second");
    expect_told(status, "cannot register a bucket of 400384 bytes: NCCL: ");
    EXPECT_THAT(status.message(), HasSubstr("HVD_NCCL_REGISTER=0"));
  });
}

TEST_F(NcclFailures, ToRegisterIsNoneWhereHvdNcclRegisterIs0) {
  ASSERT_EQ(::setenv("HVD_NCCL_REGISTER", "0", 1), 0);
  double_nccl_fail("ncclCommWindowRegister later", 1, ncclInternalError, 1);
  NcclRanks world({2});
  world.run([](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "x");
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
  EXPECT_EQ(double_nccl_calls("ncclCommWindowRegister"), 0);
  ::unsetenv("HVD_NCCL_REGISTER");
}

TEST_F(NcclFailures, IsWhatBlockingCallsOfNcclWouldBecome) {
  ASSERT_EQ(::setenv("NCCL_COMM_BLOCKING", "1", 1), 0);
  NcclRanks world({2});
  world.run([](int rank, Engine& engine) {
    EXPECT_THAT(sum(rank, engine, "x").message(),
                HasSubstr("NCCL_COMM_BLOCKING is set, which makes each call of NCCL wait for all "
                          "ranks: unset it, or set it to 0"));
  });
  ::unsetenv("NCCL_COMM_BLOCKING");
}

TEST_F(NcclFailures, IsNotWhatAnOrderlyEndLooksLike) {
  {
    NcclRanks world({1, 1});
    world.run([](int rank, Engine& engine) { ASSERT_TRUE(sum(rank, engine, "x").is_ok()); });
  }
  EXPECT_EQ(double_nccl_calls("ncclCommFinalize"), 2);
  EXPECT_EQ(double_nccl_calls("ncclCommDestroy"), 2);
  EXPECT_EQ(double_nccl_calls("ncclCommAbort"), 0) << "another device may not be done";
}

TEST_F(NcclFailures, OfAnOrderlyEndIsAnAbort) {
  for (const bool is_late : {false, true}) {
    SCOPED_TRACE(is_late ? "it does not come" : "the call fails");
    double_nccl_reset();
    {
      NcclRanks world({1});
      world.run([](int rank, Engine& engine) { ASSERT_TRUE(sum(rank, engine, "x").is_ok()); });
      if (is_late) {
        double_nccl_progress_polls(1'000'000);
      } else {
        double_nccl_fail("ncclCommFinalize", 1, ncclInternalError, 0);
      }
    }
    EXPECT_EQ(double_nccl_calls("ncclCommFinalize"), 1);
    EXPECT_EQ(double_nccl_calls("ncclCommDestroy"), 0);
    EXPECT_EQ(double_nccl_calls("ncclCommAbort"), 1);
    EXPECT_EQ(double_nccl_complaints(), 0) << double_nccl_last_complaint();
  }
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
