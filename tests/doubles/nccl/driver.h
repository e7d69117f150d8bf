// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

namespace double_nccl {

/// The driver's functions that the double needs: of the driver double, whose device memory is host
/// memory. Found among what the process has loaded, else in HVD_CUDA_LIBRARY. Null: not there.
struct Driver {
  CUresult (*launch_host_function)(CUstream, CUhostFn, void*) = nullptr;
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
  CUresult (*current_device)(CUdevice*) = nullptr;
  CUresult (*current_context)(CUcontext*) = nullptr;
  CUresult (*set_context)(CUcontext) = nullptr;
  CUresult (*uuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*allocate)(CUdeviceptr*, std::size_t) = nullptr;
  CUresult (*deallocate)(CUdeviceptr) = nullptr;
};

/// Thread-safe.
const Driver& driver();

/// The GPU of a thread.
struct CurrentGpu {
  int device = -1;  ///< -1: there is none, or no driver.
  CUcontext context = nullptr;
  std::string name;      ///< Host (NCCL_HOSTID where it is set) and uuid.
  int architecture = 0;  ///< 90 for sm_90.
};
CurrentGpu current_gpu();

/// Makes a GPU the thread's for a scope.
class ContextScope {
 public:
  explicit ContextScope(const CurrentGpu& gpu) {
    driver().current_context(&before_);
    driver().set_context(gpu.context);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() { driver().set_context(before_); }

 private:
  CUcontext before_ = nullptr;
};

}  // namespace double_nccl
