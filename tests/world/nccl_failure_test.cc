// SPDX-License-Identifier: Apache-2.0
// How the NCCL plane fails: everywhere, with one cause, and leaving GPUs that can be used again.
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>

#include "doubles/cuda/double_cuda.h"
#include "doubles/nccl/double_nccl.h"
#include "world/gpu_floats.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class NcclFailure : public testing::Test {
 protected:
  void SetUp() override { double_nccl_reset(); }
  void TearDown() override {
    double_nccl_reset();
    works_again();
    EXPECT_EQ(double_nccl_alive(), 0);
  }

  static Status sum(int rank, Engine& engine, const std::string& name) {
    auto tensors = tensors_of(rank, {5, 100'000});
    return run_request(engine, request_of(name, Allreduce{}, tensors));
  }

  /// The same GPUs serve the ranks that come afterwards.
  static void works_again() {
    World world({2}, gpu_options());
    world.run([](int rank, Engine& engine) {
      const Status status = sum(rank, engine, "again");
      EXPECT_TRUE(status.is_ok()) << status.message();
    });
  }
};

TEST_F(NcclFailure, OfACallEndsTheEpochOfAllRanks) {
  World world({2}, gpu_options());
  world.run([](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 1) double_nccl_fail("ncclAllReduce", 1, ncclInternalError, 1);
    const Status status = sum(rank, engine, "second");
    EXPECT_FALSE(status.is_ok());
    EXPECT_NE(status.message().find("NCCL"), std::string::npos) << status.message();
  });
}

TEST_F(NcclFailure, OfTheDeviceIsSeenWhileItIsUnderWay) {
  World world({2}, gpu_options());
  world.run([](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 1) double_nccl_async_error(1, 1, ncclRemoteError);
    const Status status = sum(rank, engine, "second");
    EXPECT_EQ(status.code(), Code::kPeerLost);
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  });
}

TEST_F(NcclFailure, OfARankFreesTheOthersFromTheirKernels) {
  World world({1, 1, 1}, gpu_options());
  double_nccl_silent_deaths(1);
  world.run([&world](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 2) {
      // All ranks have it in their streams, and one never runs.
      double_nccl_hang(2, 1);
      auto tensors = tensors_of(rank, {5, 100'000});
      const auto handle = engine.submit(request_of("second", Allreduce{}, tensors));
      ASSERT_TRUE(handle.is_ok());
      EXPECT_TRUE(engine.wait_stream(handle.value(), nullptr, soon()).is_ok());
      world.kill(rank);
      return;
    }
    const Status status = sum(rank, engine, "second");
    EXPECT_EQ(status.code(), Code::kPeerLost);
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.message();
  });
}

/// What one rank cannot do, all hear of at once, with its name and host.
void expect_told(const Status& status, const std::string& reason) {
  EXPECT_FALSE(status.is_ok());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 on host "), HasSubstr(reason)));
}

TEST_F(NcclFailure, OfOneRankToConnectReachesTheOthers) {
  for (const auto code :
       {ncclSystemError, ncclUnhandledCudaError, ncclInternalError, ncclInvalidArgument}) {
    World world({1, 2}, gpu_options());
    double_nccl_fail("ncclCommInitRankConfig", 1, code, 1);
    world.run([](int rank, Engine& engine) {
      expect_told(sum(rank, engine, "first"), "cannot make a communicator");
    });
  }
}

TEST_F(NcclFailure, OfTheSystemWhileRanksConnectIsNoLossAndSaysWhatToTry) {
  World world({1, 2}, gpu_options());
  double_nccl_fail("ncclCommInitRankConfig", 1, ncclSystemError, 1);
  world.run([](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "first");
    expect_told(status, "NCCL_DEBUG=INFO");
    EXPECT_THAT(status.message(), HasSubstr("ordered by the test")) << "NCCL's own words";
    EXPECT_EQ(status.code(), rank == 1 ? Code::kSystem : Code::kPeerLost);
  });
}

TEST_F(NcclFailure, OfTheSystemWhileItIsUnderWayIsNoLossByItself) {
  World world({1, 1, 1}, gpu_options());
  double_nccl_silent_deaths(1);
  world.run([&](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 1) double_nccl_async_error(1, 1, ncclSystemError);
    const Status status = sum(rank, engine, "second");
    expect_told(status, "NCCL_DEBUG=INFO");
    EXPECT_EQ(status.code(), rank == 1 ? Code::kSystem : Code::kPeerLost);
  });
}

TEST_F(NcclFailure, OfTheSystemBecauseARankIsLostNamesTheRank) {
  World world({1, 1, 1}, gpu_options());
  double_nccl_death_code(ncclSystemError);
  world.run([&](int rank, Engine& engine) {
    ASSERT_TRUE(sum(rank, engine, "first").is_ok());
    if (rank == 2) {
      double_nccl_hang(2, 1);
      auto tensors = tensors_of(rank, {5, 100'000});
      const auto handle = engine.submit(request_of("second", Allreduce{}, tensors));
      ASSERT_TRUE(handle.is_ok());
      EXPECT_TRUE(engine.wait_stream(handle.value(), nullptr, soon()).is_ok());
      world.kill(rank);
      return;
    }
    const Status status = sum(rank, engine, "second");
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank 2 on host "));
  });
}

TEST_F(NcclFailure, OfOneRankWhileAllConnectReachesTheOthers) {
  World world({1, 2}, gpu_options());
  double_nccl_fail("ncclCommGetAsyncError", 1, ncclUnhandledCudaError, 1);
  world.run([](int rank, Engine& engine) {
    expect_told(sum(rank, engine, "first"), "cannot ask for its state");
  });
}

TEST_F(NcclFailure, OfOneRanksStreamReachesTheOthers) {
  World world({1, 1}, gpu_options());
  std::atomic<int> elsewhere{0};
  double_fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY);
  world.run([&elsewhere](int rank, Engine& engine) {
    const Status status = sum(rank, engine, "first");
    EXPECT_THAT(status.message(), AllOf(HasSubstr("on host "), HasSubstr("cuStreamCreate")));
    if (status.code() == Code::kPeerLost) elsewhere.fetch_add(1);
  });
  EXPECT_EQ(elsewhere.load(), 1) << "the call of one rank failed";
}

TEST_F(NcclFailure, OfOneRanksMemoryForABucketReachesTheOthers) {
  World world({1, 1}, gpu_options());
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

TEST_F(NcclFailure, OfOneRanksWindowReachesTheOthersWithTheRemedy) {
  for (const char* const when : {"ncclCommWindowRegister", "ncclCommWindowRegister later"}) {
    for (const auto code : {ncclUnhandledCudaError, ncclInternalError, ncclRemoteError}) {
      SCOPED_TRACE(testing::Message() << when << ": " << code);
      World world({1, 1}, gpu_options());
      double_nccl_fail(when, 1, code, 1);
      world.run([](int rank, Engine& engine) {
        const Status status = sum(rank, engine, "first");
        expect_told(status, "cannot register a bucket of 400384 bytes: NCCL: ");
        EXPECT_THAT(status.message(), HasSubstr("HVD_NCCL_REGISTER=0"));
      });
    }
  }
}

TEST_F(NcclFailure, ToRegisterIsNoneWhereHvdNcclRegisterIs0) {
  ASSERT_EQ(::setenv("HVD_NCCL_REGISTER", "0", 1), 0);
  double_nccl_fail("ncclCommWindowRegister later", 1, ncclInternalError, 1);
  works_again();
  EXPECT_EQ(double_nccl_calls("ncclCommWindowRegister"), 0);
  ::unsetenv("HVD_NCCL_REGISTER");
}

TEST_F(NcclFailure, IsNotWhatAnOrderlyEndLooksLike) {
  {
    World world({1, 1}, gpu_options());
    world.run([](int rank, Engine& engine) { ASSERT_TRUE(sum(rank, engine, "x").is_ok()); });
  }
  EXPECT_EQ(double_nccl_calls("ncclCommDestroy"), 2);
  EXPECT_EQ(double_nccl_calls("ncclCommAbort"), 0) << "another device may not be done";
}

TEST(NcclStreams, WaitOnceForWhatLeftTogether) {
  World world({1}, gpu_options());
  Engine& engine = world.engine(0);
  Gpu& gpu = *gpus().open({DeviceKind::kCuda, 0}).value();
  const StreamHandle stream = gpu.create_stream().value();
  auto tensors = tensors_of(0, std::vector<std::size_t>(40, 8));
  double_hang(static_cast<CUstream>(stream));  // what the device has done needs no wait
  std::vector<Engine::Handle> handles;
  for (auto& tensor : tensors) {
    std::vector<std::unique_ptr<GpuFloats>> one;
    one.push_back(std::move(tensor));
    Request request = request_of("t" + std::to_string(handles.size()), Allreduce{}, one);
    request.stream = stream;
    request.more = handles.size() + 1 < tensors.size();
    handles.push_back(engine.submit(std::move(request)).value());
    tensor = std::move(one.front());
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
  gpu.destroy_stream(stream);
}

}  // namespace
}  // namespace hvd
