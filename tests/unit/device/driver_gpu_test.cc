// SPDX-License-Identifier: Apache-2.0
#include "device/driver_gpu.h"

#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cuda_gpus.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using DriverGpuTest = CudaGpus;

std::vector<int> numbers(std::size_t count) {
  std::vector<int> made(count);
  std::iota(made.begin(), made.end(), 1);
  return made;
}

TEST_F(DriverGpuTest, KnowsWhatTellsItFromOthers) {
  EXPECT_EQ(gpu_->facts().name, "Double of a GPU");
  EXPECT_EQ(gpu_->facts().bus_id, "0000:1a:00.0");
  EXPECT_EQ(other_gpu_->facts().bus_id, "0000:1b:00.0");
  EXPECT_NE(gpu_->facts().uuid, other_gpu_->facts().uuid);
  EXPECT_EQ(gpu_->facts().architecture, 80);
  EXPECT_EQ(gpu_->facts().multiprocessors, 4);
  EXPECT_EQ(gpu_->device(), (Device{DeviceKind::kCuda, 0}));
}

TEST_F(DriverGpuTest, CopiesFromTheHostAndBack) {
  const StreamHandle queue = stream();
  const std::vector<int> sent = numbers(1000);
  std::vector<int> got(sent.size());
  int* const memory = allocate<int>(sent.size());
  const std::size_t bytes = sent.size() * sizeof(int);
  ASSERT_TRUE(gpu_->copy(memory, sent.data(), bytes, queue).is_ok());
  ASSERT_TRUE(gpu_->copy(got.data(), memory, bytes, queue).is_ok());
  ASSERT_TRUE(finish(*gpu_, queue).is_ok());
  EXPECT_EQ(got, sent);
  gpu_->deallocate(memory);
}

TEST_F(DriverGpuTest, MakesAStreamWaitForAnother) {
  const StreamHandle first = stream();
  const StreamHandle second = stream();
  auto* const memory = allocate<unsigned char>(8);
  double_hang(static_cast<CUstream>(first));
  ASSERT_TRUE(gpu_->set_bytes(memory, 1, 8, first).is_ok());
  auto event = gpu_->record(first);
  ASSERT_TRUE(event.is_ok());
  ASSERT_TRUE(gpu_->make_wait(second, *event.value()).is_ok());
  ASSERT_TRUE(gpu_->set_bytes(memory, 2, 8, second).is_ok());
  auto end = gpu_->record(second);
  ASSERT_TRUE(end.is_ok());
  EXPECT_FALSE(gpu_->has_happened(*end.value()).value());
  double_release();
  ASSERT_TRUE(gpu_->wait(*end.value()).is_ok());
  EXPECT_TRUE(gpu_->has_happened(*event.value()).value());
  EXPECT_EQ(memory[7], 2);
  gpu_->deallocate(memory);
}

TEST_F(DriverGpuTest, WaitsForEventsOfOtherGpus) {
  const StreamHandle queue = stream();
  const StreamHandle other = stream(*other_gpu_);
  double_hang(static_cast<CUstream>(other));
  auto event = other_gpu_->record(other);
  ASSERT_TRUE(event.is_ok());
  ASSERT_TRUE(gpu_->make_wait(queue, *event.value()).is_ok());
  auto end = gpu_->record(queue);
  ASSERT_TRUE(end.is_ok());
  EXPECT_FALSE(gpu_->has_happened(*end.value()).value());
  double_release();
  EXPECT_TRUE(gpu_->wait(*end.value()).is_ok());
}

TEST_F(DriverGpuTest, NeedsNoCallToWaitInTheSameStream) {
  const StreamHandle queue = stream();
  auto event = gpu_->record(queue);
  ASSERT_TRUE(event.is_ok());
  EXPECT_TRUE(gpu_->make_wait(queue, *event.value()).is_ok());
  EXPECT_EQ(double_calls("cuStreamWaitEvent"), 0U);
  // The default streams of two GPUs have the same handle, and are two streams.
  auto of_default = other_gpu_->record(nullptr);
  ASSERT_TRUE(of_default.is_ok());
  EXPECT_TRUE(gpu_->make_wait(nullptr, *of_default.value()).is_ok());
  EXPECT_EQ(double_calls("cuStreamWaitEvent"), 1U);
}

TEST_F(DriverGpuTest, MakesStreamsThatNeitherWaitForTheDefaultStreamNorForLowerPriorities) {
  auto* const queue = static_cast<CUstream>(stream());
  CUcontext none{};
  ASSERT_TRUE(gpu_->enter().is_ok());
  unsigned flags = 0;
  int priority = 0;
  EXPECT_EQ(cuStreamGetFlags(queue, &flags), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetPriority(queue, &priority), CUDA_SUCCESS);
  gpu_->leave();
  EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(priority, -5);
  EXPECT_EQ(cuCtxGetCurrent(&none), CUDA_SUCCESS);
  EXPECT_EQ(none, nullptr);
}

TEST_F(DriverGpuTest, TakesEventsAgain) {
  const StreamHandle queue = stream();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(gpu_->record(queue).is_ok());
  EXPECT_EQ(double_calls("cuEventCreate"), 1U);
  const auto first = gpu_->record(queue);
  const auto second = gpu_->record(queue);
  EXPECT_NE(first.value()->handle(), second.value()->handle());
  EXPECT_EQ(double_calls("cuEventCreate"), 2U);
}

TEST_F(DriverGpuTest, DestroysItsEventsWithItself) {
  ASSERT_TRUE(gpu_->record(stream()).is_ok());
  EXPECT_EQ(double_events(), 1U);
  TearDown();
  EXPECT_EQ(double_events(), 0U);
  SetUp();
}

TEST_F(DriverGpuTest, KeepsTheContextThatAThreadHas) {
  ASSERT_TRUE(other_gpu_->enter().is_ok());
  CUcontext before{};
  ASSERT_EQ(cuCtxGetCurrent(&before), CUDA_SUCCESS);
  const StreamHandle queue = stream();
  ASSERT_TRUE(gpu_->record(queue).is_ok());
  double_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(gpu_->record(queue).is_ok());
  CUcontext after{};
  ASSERT_EQ(cuCtxGetCurrent(&after), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
  other_gpu_->leave();
}

TEST_F(DriverGpuTest, RefusesTheStreamOfAnotherGpu) {
  EXPECT_TRUE(gpu_->check_stream(stream()).is_ok());
  EXPECT_TRUE(gpu_->check_stream(nullptr).is_ok());
  const Status status = gpu_->check_stream(stream(*other_gpu_));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("GPU 0 (Double of a GPU): stream 0x"),
                    HasSubstr("belongs to another"), HasSubstr("torch.cuda.device(0)")));
}

TEST_F(DriverGpuTest, RefusesWhatIsNoStreamOrMeansOneOfEachThread) {
  int nothing = 0;
  const Status unknown = gpu_->check_stream(&nothing);
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_THAT(unknown.message(), HasSubstr(format_text("stream {}", static_cast<void*>(&nothing))));
  const Status status = gpu_->check_stream(CU_STREAM_PER_THREAD);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("on every thread"));
  // As a driver answers for a stream of a green context.
  double_fail("cuStreamGetCtx", 1, CUDA_ERROR_NOT_SUPPORTED);
  const Status green = gpu_->check_stream(stream());
  EXPECT_EQ(green.code(), Code::kUnsupported);
  EXPECT_THAT(green.message(), HasSubstr("green context"));
}

TEST_F(DriverGpuTest, BlamesNoStreamForAFaultOfTheGpu) {
  const StreamHandle queue = stream();
  double_spoil(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  const Status status = gpu_->check_stream(queue);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("compute-sanitizer")));
}

TEST_F(DriverGpuTest, GivesMemoryBack) {
  const std::size_t before = double_allocated(0);
  auto* const memory = allocate<char>(1000);
  auto* const nothing = allocate<char>(0);
  EXPECT_NE(nothing, nullptr);
  EXPECT_EQ(double_allocated(0), before + 1001);
  EXPECT_EQ(double_allocated(1), 0U);
  gpu_->deallocate(memory);
  gpu_->deallocate(nothing);
  gpu_->deallocate(nullptr);
  EXPECT_EQ(double_allocated(0), before);
  auto pinned = gpu_->allocate_pinned(512);
  ASSERT_TRUE(pinned.is_ok());
  EXPECT_EQ(double_allocated(-1), 512U);
  gpu_->deallocate_pinned(pinned.value());
  gpu_->deallocate_pinned(nullptr);
  EXPECT_EQ(double_allocated(-1), 0U);
}

TEST_F(DriverGpuTest, SaysHowMuchMemoryWasNotToBeHad) {
  double_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const auto memory = gpu_->allocate(4096);
  EXPECT_EQ(memory.status().code(), Code::kSystem);
  EXPECT_EQ(memory.status().message(),
            "allocating 4096 bytes: GPU 0 (Double of a GPU): cuMemAlloc_v2: "
            "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; nvidia-smi shows who holds the memory of "
            "the GPU; a smaller batch needs less");
  double_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(gpu_->allocate_pinned(77).status().message(), HasSubstr("pinning 77 bytes: GPU 0"));
}

TEST_F(DriverGpuTest, RefusesCopiesBeyondMemory) {
  const StreamHandle queue = stream();
  char* const memory = allocate<char>(100);
  char* const stale = allocate<char>(100);
  gpu_->deallocate(stale);
  EXPECT_TRUE(gpu_->copy(memory, memory, 0, queue).is_ok());
  EXPECT_TRUE(gpu_->set_bytes(memory, 0, 0, queue).is_ok());
  const Status beyond = gpu_->copy(memory + 50, memory, 51, queue);
  EXPECT_THAT(beyond.message(), AllOf(HasSubstr("copying 51 bytes: GPU 0"),
                                      HasSubstr("cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1)")));
  EXPECT_FALSE(gpu_->copy(memory, stale, 100, queue).is_ok());
  EXPECT_FALSE(gpu_->set_bytes(stale, 1, 1, queue).is_ok());
  EXPECT_FALSE(gpu_->set_bytes(memory, 1, 101, queue).is_ok());
  gpu_->deallocate(memory);
}

TEST_F(DriverGpuTest, SaysThatAFaultBeforeSpoiltTheGpu) {
  const StreamHandle queue = stream();
  const auto event = gpu_->record(queue);
  ASSERT_TRUE(event.is_ok());
  double_spoil(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  const Status status = gpu_->wait(*event.value());
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"),
                                      HasSubstr("compute-sanitizer")));
  EXPECT_FALSE(gpu_->has_happened(*event.value()).is_ok());
  EXPECT_TRUE(finish(*other_gpu_, stream(*other_gpu_)).is_ok());
}

TEST_F(DriverGpuTest, ReachesItsPeersUnlessTheDriverSaysNo) {
  for (const bool reach : {true, false}) {
    double_peers(reach ? 1 : 0);
    const auto peers = gpu_->peers();
    ASSERT_TRUE(peers.is_ok()) << peers.status().message();
    ASSERT_EQ(peers.value().size(), static_cast<std::size_t>(gpus_->count().value() - 1));
    EXPECT_EQ(peers.value()[0].uuid, other_gpu_->facts().uuid);
    EXPECT_EQ(peers.value()[0].is_in_reach, reach);
  }
  double_fail("cuDeviceCanAccessPeer", 1, CUDA_ERROR_INVALID_DEVICE);
  EXPECT_THAT(gpu_->peers().status().message(), HasSubstr("cuDeviceCanAccessPeer"));
}

// Whatever fails says which GPU and which call.
TEST_F(DriverGpuTest, NamesTheCallThatFailed) {
  const StreamHandle queue = stream();
  const StreamHandle elsewhere = stream();
  char* const memory = allocate<char>(10);
  const auto event = gpu_->record(queue);
  struct Case {
    const char* function;
    std::function<Status()> run;
  };
  const std::vector<Case> cases{
      {"cuCtxPushCurrent_v2", [&] { return gpu_->enter(); }},
      {"cuThreadExchangeStreamCaptureMode", [&] { return gpu_->enter(); }},
      {"cuCtxPushCurrent_v2", [&] { return gpu_->has_happened(*event.value()).status(); }},
      {"cuCtxPushCurrent_v2", [&] { return gpu_->copy(memory, memory, 1, queue); }},
      {"cuCtxGetStreamPriorityRange", [&] { return gpu_->create_stream().status(); }},
      {"cuStreamCreateWithPriority", [&] { return gpu_->create_stream().status(); }},
      {"cuStreamGetCtx", [&] { return gpu_->check_stream(queue); }},
      {"cuStreamIsCapturing", [&] { return gpu_->check_stream(queue); }},
      {"cuEventCreate", [&] { return gpu_->record(queue).status(); }},
      {"cuEventRecord", [&] { return gpu_->record(queue).status(); }},
      {"cuStreamWaitEvent", [&] { return gpu_->make_wait(elsewhere, *event.value()); }},
      {"cuEventQuery", [&] { return gpu_->has_happened(*event.value()).status(); }},
      {"cuEventSynchronize", [&] { return gpu_->wait(*event.value()); }},
      {"cuMemAlloc_v2", [&] { return gpu_->allocate(1).status(); }},
      {"cuMemHostAlloc", [&] { return gpu_->allocate_pinned(1).status(); }},
      {"cuMemcpyAsync", [&] { return gpu_->copy(memory, memory, 1, queue); }},
      {"cuMemsetD8Async", [&] { return gpu_->set_bytes(memory, 0, 1, queue); }},
      {"cuStreamBeginCapture_v2", [&] { return gpu_->begin_capture(queue); }},
      {"cuStreamEndCapture", [&] { return gpu_->end_capture(queue).status(); }},
      {"cuGraphLaunch", [&] { return gpu_->launch_graph(nullptr, queue); }},
  };
  for (const Case& one : cases) {
    double_fail(one.function, 1, CUDA_ERROR_UNKNOWN);
    const Status status = one.run();
    EXPECT_THAT(status.message(), HasSubstr(std::string("GPU 0 (Double of a GPU): ") +
                                            one.function + ": CUDA_ERROR_UNKNOWN (999)"))
        << one.function;
  }
  gpu_->deallocate(memory);
}

TEST_F(DriverGpuTest, KeepsTheNumberOfACodeWithoutName) {
  double_fail("cuEventCreate", 1, static_cast<CUresult>(1001));
  EXPECT_THAT(gpu_->record(nullptr).status().message(),
              HasSubstr("cuEventCreate:  (1001): unknown code"));
}

}  // namespace
}  // namespace hvd
