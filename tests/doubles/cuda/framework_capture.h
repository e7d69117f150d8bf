// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

namespace hvd {

/// A framework that captures a stream into a graph, in the mode of torch.cuda.graph: to be ended by
/// the thread that began it. Wants that nobody spoils it.
class FrameworkCapture {
 public:
  explicit FrameworkCapture(void* stream) : stream_(static_cast<CUstream>(stream)) {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  FrameworkCapture(const FrameworkCapture&) = delete;
  FrameworkCapture& operator=(const FrameworkCapture&) = delete;
  ~FrameworkCapture() {
    CUgraph graph{};
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS) << "the capture is spoilt";
    if (graph != nullptr) {
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuCtxPopCurrent(&context_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

 private:
  CUstream stream_;
  CUcontext context_{};
};

}  // namespace hvd
