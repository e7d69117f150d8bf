// SPDX-License-Identifier: Apache-2.0
// That the driver's double is as strict as the driver: what passes over it must not fail on a GPU.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "doubles/cuda/double_cuda.h"

namespace {

class CudaDouble : public testing::Test {
 protected:
  void SetUp() override {
    double_reset();
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    for (int gpu = 0; gpu < 2; ++gpu) {
      ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[gpu], gpu), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    first_ = stream();
    second_ = stream();
  }

  void TearDown() override {
    double_release();
    EXPECT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    for (const CUstream one : streams_) EXPECT_EQ(cuStreamDestroy(one), CUDA_SUCCESS);
    for (const CUevent one : events_) EXPECT_EQ(cuEventDestroy(one), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(cuDevicePrimaryCtxRelease(gpu), CUDA_SUCCESS);
    double_reset();
  }

  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made{};
    EXPECT_EQ(cuStreamCreate(&made, flags), CUDA_SUCCESS);
    streams_.push_back(made);
    return made;
  }
  CUevent event() {
    CUevent made{};
    EXPECT_EQ(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    events_.push_back(made);
    return made;
  }
  static CUdeviceptr memory(std::size_t bytes) {
    CUdeviceptr made = 0;
    EXPECT_EQ(cuMemAlloc(&made, bytes), CUDA_SUCCESS);
    return made;
  }
  static unsigned char* bytes_of(CUdeviceptr address) {
    return reinterpret_cast<unsigned char*>(address);
  }

  CUcontext contexts_[2] = {};
  CUstream first_{};
  CUstream second_{};

 private:
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_;
};

TEST_F(CudaDouble, NeedsACurrentContext) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CUevent made{};
  EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuEventCreate(&made, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamSynchronize(first_), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext popped{};
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(CudaDouble, KnowsTheContextOfEveryThing) {
  const CUevent of_first = event();
  ASSERT_EQ(cuCtxPushCurrent(contexts_[1]), CUDA_SUCCESS);
  CUstream elsewhere{};
  ASSERT_EQ(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(of_first, elsewhere), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(of_first, first_), CUDA_SUCCESS) << "its stream says which";
  EXPECT_EQ(cuEventRecord(of_first, nullptr), CUDA_ERROR_INVALID_HANDLE)
      << "the default stream of what is current";
  CUcontext owner{};
  EXPECT_EQ(cuStreamGetCtx(elsewhere, &owner), CUDA_SUCCESS);
  EXPECT_EQ(owner, contexts_[1]);
  EXPECT_EQ(cuStreamGetCtx(nullptr, &owner), CUDA_SUCCESS);
  EXPECT_EQ(owner, contexts_[1]);
  EXPECT_EQ(cuStreamDestroy(elsewhere), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(elsewhere), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CudaDouble, RefusesAContextThatNobodyHolds) {
  CUcontext spare{};
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent(contexts_[1]), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&spare, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&spare, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(CudaDouble, FindsCopiesBeyondAnEndAndStalePointers) {
  const CUdeviceptr source = memory(100);
  const CUdeviceptr target = memory(100);
  EXPECT_EQ(source % 256, 0U);
  EXPECT_EQ(cuMemcpyAsync(target, source, 100, first_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyAsync(target + 1, source, 100, first_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyAsync(target, source + 100, 1, first_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8Async(target + 90, 1, 11, first_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(source + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(bytes_of(source)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(source), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(source), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyAsync(target, source, 1, first_), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr next = memory(100);
  EXPECT_NE(next, source) << "no address comes twice";
  EXPECT_EQ(cuMemFree(next), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(target), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
  CUdeviceptr nothing = 0;
  EXPECT_EQ(cuMemAlloc(&nothing, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaDouble, EndsAProgramThatTouchesWhatIsNotAllocated) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CUdeviceptr held = memory(256);
  EXPECT_DEATH(bytes_of(held)[256] = 1, "");
  ASSERT_EQ(cuMemFree(held), CUDA_SUCCESS);
  EXPECT_DEATH(bytes_of(held)[0] = 1, "");
}

TEST_F(CudaDouble, CopiesOrdinaryMemoryAtOnce) {
  const CUdeviceptr held = memory(4);
  double_hang(first_);
  unsigned char sent[4] = {1, 2, 3, 4};
  const auto from = reinterpret_cast<CUdeviceptr>(sent);
  ASSERT_EQ(cuMemcpyAsync(held, from, 4, first_), CUDA_SUCCESS);
  sent[0] = 9;  // may be changed at once: the driver has taken it
  double_release();
  unsigned char got[4] = {};
  ASSERT_EQ(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(got), held, 4, first_), CUDA_SUCCESS);
  EXPECT_EQ(got[0], 1) << "is there when the call returns";
  EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
}

TEST_F(CudaDouble, KeepsTheOrderOfTheDefaultStream) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT);
  const CUdeviceptr held = memory(1);
  double_hang(blocking);
  ASSERT_EQ(cuMemsetD8Async(held, 1, 1, blocking), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(held, 2, 1, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(held, 3, 1, blocking), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(first_), CUDA_SUCCESS) << "a non-blocking one does not wait";
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  double_release();
  ASSERT_EQ(cuStreamSynchronize(blocking), CUDA_SUCCESS);
  EXPECT_EQ(*bytes_of(held), 3);
  EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
}

TEST_F(CudaDouble, LetsStreamsRunInAnyOrderThatEventsAllow) {
  bool second_was_first = false;
  bool first_was_first = false;
  const CUdeviceptr held = memory(2);
  for (std::uint64_t seed = 1; seed <= 200 && !(first_was_first && second_was_first); ++seed) {
    double_delay(seed, 300);
    struct Turn {
      unsigned char* held;
      int mine;
    };
    std::memset(bytes_of(held), 0, 2);
    Turn turns[2] = {{bytes_of(held), 1}, {bytes_of(held), 2}};
    static std::mutex mutex;
    const CUhostFn take = [](void* context) {
      auto* const turn = static_cast<Turn*>(context);
      std::lock_guard lock(mutex);
      if (turn->held[0] == 0) turn->held[0] = static_cast<unsigned char>(turn->mine);
    };
    ASSERT_EQ(cuLaunchHostFunc(first_, take, &turns[0]), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchHostFunc(second_, take, &turns[1]), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    first_was_first = first_was_first || *bytes_of(held) == 1;
    second_was_first = second_was_first || *bytes_of(held) == 2;
  }
  EXPECT_TRUE(first_was_first);
  EXPECT_TRUE(second_was_first);
  EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
}

TEST_F(CudaDouble, FreesMemoryWhenTheGpuIsDoneWithIt) {
  const CUdeviceptr held = memory(1);
  double_hang(first_);
  ASSERT_EQ(cuMemsetD8Async(held, 1, 1, first_), CUDA_SUCCESS);
  std::thread freeing([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
  });
  while (double_calls("wait") == 0) std::this_thread::yield();
  EXPECT_EQ(double_allocated(0), 1U);
  double_release();
  freeing.join();
  EXPECT_EQ(double_allocated(0), 0U);
}

TEST_F(CudaDouble, FailsAndHangsWhenItIsTold) {
  const CUevent point = event();
  double_fail("cuEventRecord", 2, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuEventRecord(point, first_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(point, first_), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuEventRecord(point, first_), CUDA_SUCCESS);
  double_fail("cuEventRecord", 0, CUDA_ERROR_UNKNOWN);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuEventRecord(point, first_), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(double_calls("cuEventRecord"), 6U);
  double_reset();
  EXPECT_EQ(double_calls("cuEventRecord"), 0U);

  const CUdeviceptr held = memory(1);
  *bytes_of(held) = 0;
  double_hang_at("cuMemsetD8Async", 1);
  ASSERT_EQ(cuMemsetD8Async(held, 1, 1, first_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(point, first_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(second_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(point), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*bytes_of(held), 0);
  double_release();
  EXPECT_EQ(cuEventSynchronize(point), CUDA_SUCCESS);
  EXPECT_EQ(*bytes_of(held), 1);
  EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
}

TEST_F(CudaDouble, IsOfNoUseAfterAFault) {
  const CUevent point = event();
  double_spoil(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuEventRecord(point, first_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuEventSynchronize(point), CUDA_ERROR_ILLEGAL_ADDRESS);
  double_reset();
  EXPECT_EQ(cuEventRecord(point, first_), CUDA_SUCCESS);
}

TEST_F(CudaDouble, RefusesWhatACaptureCannotHold) {
  CUgraph graph{};
  const CUevent before = event();
  const CUevent inside = event();
  const auto begin = [&] {
    ASSERT_EQ(cuStreamBeginCapture(first_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  };
  ASSERT_EQ(cuEventRecord(before, second_), CUDA_SUCCESS);

  begin();  // an event from outside
  EXPECT_EQ(cuStreamWaitEvent(first_, before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin();  // a stream that joined and did not come back
  ASSERT_EQ(cuEventRecord(inside, first_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second_, inside, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                second_, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(second_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

  begin();  // waiting for it on the host
  ASSERT_EQ(cuEventRecord(inside, first_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(first_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuEventSynchronize(inside), CUDA_ERROR_CAPTURED_EVENT);

  begin();  // another thread
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    CUdeviceptr other = 0;
    EXPECT_EQ(cuMemAlloc(&other, 1), CUDA_SUCCESS) << "is free to allocate";
    EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(CudaDouble, RefusesTheDefaultStreamWhileOneThatTakesTurnsWithItIsCaptured) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT);
  const CUevent point = event();
  const CUdeviceptr held = memory(1);
  CUgraph graph{};
  CUstreamCaptureStatus status{};
  const std::vector<std::function<CUresult()>> uses{
      [&] { return cuMemsetD8Async(held, 1, 1, nullptr); },
      [&] { return cuEventRecord(point, nullptr); },
      [&] { return cuStreamWaitEvent(nullptr, point, 0); },
  };
  for (const auto& use : uses) {
    ASSERT_EQ(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE) << "to ask spoils nothing";
    EXPECT_EQ(use(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(use(), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(held), CUDA_SUCCESS);
}

TEST_F(CudaDouble, ForbidsWhatTheModesOfThreadAndCaptureSay) {
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
  constexpr auto kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUevent point = event();
  ASSERT_EQ(cuEventRecord(point, second_), CUDA_SUCCESS);
  /// What comes of a look at an event on a thread of this mode.
  const auto look = [&](CUstreamCaptureMode mode) {
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, kGlobal) << "of a thread that has not chosen";
    const CUresult code = cuEventSynchronize(point);
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    return code;
  };
  struct Case {
    CUstreamCaptureMode capture;
    CUstreamCaptureMode thread;
    bool forbids_its_own;
    bool forbids_others;
  };
  for (const Case& one :
       {Case{kGlobal, kGlobal, true, true}, Case{kGlobal, kThreadLocal, true, false},
        Case{kGlobal, kRelaxed, false, false}, Case{kThreadLocal, kGlobal, true, false},
        Case{kThreadLocal, kRelaxed, false, false}, Case{kRelaxed, kGlobal, false, false}}) {
    for (const bool is_its_own : {true, false}) {
      ASSERT_EQ(cuStreamBeginCapture(first_, one.capture), CUDA_SUCCESS);
      CUresult code = CUDA_SUCCESS;
      if (is_its_own) {
        code = look(one.thread);
      } else {
        std::thread([&] { code = look(one.thread); }).join();
      }
      const bool forbids = is_its_own ? one.forbids_its_own : one.forbids_others;
      EXPECT_EQ(code, forbids ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS)
          << one.capture << one.thread << is_its_own;
      CUgraph graph{};
      EXPECT_EQ(cuStreamEndCapture(first_, &graph),
                forbids ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
      EXPECT_EQ(graph == nullptr, forbids);
      if (graph != nullptr) {
        ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
      }
    }
  }
}

TEST_F(CudaDouble, ServesNoChildOfFork) {
  const pid_t child = ::fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    const bool refused = cuMemAlloc(&address, 1) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// A process of its own: what the variables say is read once.
int main_of_child() {
  if (std::getenv("DOUBLE_CHILD") == nullptr) return -1;
  int count = -1;
  const CUresult begun = cuInit(0);
  if (begun != CUDA_SUCCESS) return 100 + static_cast<int>(begun);
  CUuuid uuid{};
  int reach = 0;
  int major = 0;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS || cuDeviceGetUuid_v2(&uuid, 0) != CUDA_SUCCESS ||
      cuDeviceCanAccessPeer(&reach, 0, 1) != CUDA_SUCCESS ||
      cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) !=
          CUDA_SUCCESS) {
    return 1;
  }
  CUcontext context{};
  const CUresult held = cuDevicePrimaryCtxRetain(&context, 0);
  const bool as_told = count == 2 && uuid.bytes[15] == 3 && reach == 0 && major == 9 &&
                       held == CUDA_ERROR_DEVICE_UNAVAILABLE;
  return as_told ? 0 : 2;
}

TEST(CudaDoubleProcess, ObeysItsVariables) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string calls = testing::TempDir() + "double_calls_" + std::to_string(::getpid());
  const auto run = [&](const std::string& variables) {
    const std::string command = "DOUBLE_CHILD=1 " + variables + " " + program;
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run("HVD_DOUBLE_GPUS=4 CUDA_VISIBLE_DEVICES=3,1 HVD_DOUBLE_ARCHITECTURE=90 "
                "HVD_DOUBLE_PEERS=0 HVD_DOUBLE_FAIL=cuDevicePrimaryCtxRetain:1:46 "
                "HVD_DOUBLE_CALLS=" +
                calls),
            0);
  EXPECT_EQ(run("HVD_DOUBLE_GPUS=0"), 100 + static_cast<int>(CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(run("CUDA_VISIBLE_DEVICES="), 100 + static_cast<int>(CUDA_ERROR_NO_DEVICE));
  std::ifstream file(calls);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(text.find("cuInit 1\n"), std::string::npos) << text;
  std::remove(calls.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (const int code = main_of_child(); code >= 0) return code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
