// SPDX-License-Identifier: Apache-2.0
// Streams that a framework captures into a graph: what we do beside them spoils no capture.
#include <gmock/gmock.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda_gpus.h"
#include "device/ready_points.h"
#include "doubles/cuda/framework_capture.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What captures forbid this thread.
CUstreamCaptureMode rules_of_thread() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  CUstreamCaptureMode found = mode;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  return found;
}

class FrameworkCaptureTest : public CudaGpus {
 protected:
  /// Everything that drivers refuse while streams are captured, and what comes with it.
  void use_gpu() {
    const StreamHandle queue = stream();
    auto* const memory = allocate<char>(64);
    auto pinned = gpu_->allocate_pinned(64);
    ASSERT_TRUE(pinned.is_ok()) << pinned.status().message();
    EXPECT_TRUE(gpu_->set_bytes(pinned.value(), 3, 64, queue).is_ok());
    EXPECT_TRUE(gpu_->copy(memory, pinned.value(), 64, queue).is_ok());
    auto event = gpu_->record(queue);
    ASSERT_TRUE(event.is_ok()) << event.status().message();
    EXPECT_TRUE(gpu_->has_happened(*event.value()).is_ok());
    EXPECT_TRUE(gpu_->wait(*event.value()).is_ok());
    EXPECT_EQ(memory[63], 3);
    EXPECT_TRUE(gpu_->check_stream(queue).is_ok());
    const auto kernel = gpu_->kernel("hvd_fill");
    EXPECT_TRUE(kernel.is_ok() || kernel.status().code() == Code::kUnsupported)
        << kernel.status().message();
    gpu_->deallocate(memory);
    gpu_->deallocate_pinned(pinned.value());
    EXPECT_EQ(double_allocated(0), 0U);
    EXPECT_EQ(double_allocated(-1), 0U);
  }
};

TEST_F(FrameworkCaptureTest, OfAnotherThreadGoesOnWhateverWeDo) {
  const StreamHandle captured = stream();
  std::mutex mutex;
  std::condition_variable changed;
  bool has_begun = false;
  bool may_end = false;
  std::thread framework([&] {
    const FrameworkCapture capture(captured);
    std::unique_lock lock(mutex);
    has_begun = true;
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return has_begun; });
  }
  use_gpu();
  {
    std::lock_guard lock(mutex);
    may_end = true;
    changed.notify_all();
  }
  framework.join();
  EXPECT_EQ(double_graphs(), 0U);
}

TEST_F(FrameworkCaptureTest, OfTheCallingThreadGoesOnAsWell) {
  const FrameworkCapture capture(stream());
  use_gpu();
  const CurrentGpu current(*gpu_);  // as where callers drive the engine
  use_gpu();
}

TEST_F(FrameworkCaptureTest, ForbidsAThreadTheSameAfterwards) {
  ASSERT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  use_gpu();
  EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  {
    const CurrentGpu current(*gpu_);
    EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_RELAXED);
    const CurrentGpu other(*other_gpu_);
    use_gpu();
    EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  double_fail("cuThreadExchangeStreamCaptureMode", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(gpu_->enter().is_ok());
  CUcontext none{};
  EXPECT_EQ(cuCtxGetCurrent(&none), CUDA_SUCCESS);
  EXPECT_EQ(none, nullptr);
  CUstreamCaptureMode chosen = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&chosen), CUDA_SUCCESS);
  use_gpu();
  EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&chosen), CUDA_SUCCESS);
}

// A capture of ours must not hold what is called at once.
TEST_F(FrameworkCaptureTest, OurOwnForbidsWhatAGraphCannotHold) {
  for (const bool inside : {false, true}) {
    const StreamHandle queue = stream();
    std::unique_ptr<CurrentGpu> current;
    if (inside) current = std::make_unique<CurrentGpu>(*gpu_);
    ASSERT_TRUE(gpu_->begin_capture(queue).is_ok());
    EXPECT_THAT(gpu_->allocate(8).status().message(),
                HasSubstr("cuMemAlloc_v2: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
    EXPECT_FALSE(gpu_->end_capture(queue).is_ok());
    use_gpu();
    ASSERT_TRUE(gpu_->begin_capture(queue).is_ok());
    const auto graph = gpu_->end_capture(queue);
    ASSERT_TRUE(graph.is_ok()) << graph.status().message();
    gpu_->destroy_graph(graph.value());
    for (const char* const function :
         {"cuStreamBeginCapture", "cuThreadExchangeStreamCaptureMode"}) {
      double_fail(function, 1, CUDA_ERROR_UNKNOWN);
      EXPECT_FALSE(gpu_->begin_capture(queue).is_ok());
      EXPECT_TRUE(gpu_->check_stream(queue).is_ok()) << "nothing has begun";
      use_gpu();
    }
    current.reset();
    EXPECT_EQ(rules_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
}

TEST_F(FrameworkCaptureTest, OurOwnAndThatOfAFrameworkGoOnTogether) {
  const FrameworkCapture capture(stream());
  const StreamHandle queue = stream();
  auto* const memory = allocate<char>(8);
  ASSERT_TRUE(gpu_->begin_capture(queue).is_ok());
  ASSERT_TRUE(gpu_->set_bytes(memory, 5, 8, queue).is_ok());
  const auto graph = gpu_->end_capture(queue);
  ASSERT_TRUE(graph.is_ok()) << graph.status().message();
  ASSERT_TRUE(gpu_->launch_graph(graph.value(), queue).is_ok());
  ASSERT_TRUE(finish(*gpu_, queue).is_ok());
  EXPECT_EQ(memory[7], 5);
  gpu_->destroy_graph(graph.value());
  gpu_->deallocate(memory);
}

TEST_F(FrameworkCaptureTest, ItsStreamIsRefusedByName) {
  const StreamHandle captured = stream();
  const FrameworkCapture capture(captured);
  const Status status = gpu_->check_stream(captured);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(format_text("GPU 0 (Double of a GPU): stream {} is being captured",
                                          captured)),
                    HasSubstr("before or after the capture")));
  // A request that was accepted before the capture began: its event would become part of the graph.
  ReadyPoint point(*gpu_, captured);
  EXPECT_EQ(point.event().status().code(), Code::kUnsupported);
  EXPECT_FALSE(point.is_recorded());
}

TEST_F(FrameworkCaptureTest, OfAStreamThatTakesTurnsKeepsTheDefaultStreamFromUse) {
  ASSERT_TRUE(gpu_->enter().is_ok());
  CUstream blocking{};
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  {
    const FrameworkCapture capture(blocking);
    const Status status = gpu_->check_stream(nullptr);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("the default stream cannot be used"), HasSubstr("non-blocking")));
  }
  EXPECT_TRUE(gpu_->check_stream(nullptr).is_ok());
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
  gpu_->leave();
}

}  // namespace
}  // namespace hvd
