// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>

/// The primary context of a GPU; there are no others.
struct CUctx_st {
  int device = 0;
  std::atomic<int> references{0};
  /// What every call that needs the GPU gives, as the driver after a fault: CUDA_SUCCESS: it is
  /// well.
  std::atomic<CUresult> fault{CUDA_SUCCESS};
  /// The legacy default stream.
  CUstream stream = nullptr;
};

namespace double_cuda {

/// In this process; a child of fork() has to begin anew, and cannot.
bool is_initialised();
/// The program has ended, and the driver before it: nothing works any more.
bool has_driver_ended();
/// GPUs that this process sees.
int device_count();
/// Of all of them: 90 for sm_90.
int architecture();
/// Null: there is no such GPU.
CUcontext context_of(int device);
/// That of the thread; null: none.
CUcontext current_context();
void heal_devices();

}  // namespace double_cuda
