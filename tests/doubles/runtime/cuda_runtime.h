// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

/// What examples/cpp/cuda_mlp.cu uses of CUDA's runtime and of its language, for a compiler of the
/// host and over the double of the driver. NAME<<<A, B, C, D>>>(...) has to be launch(NAME, A, B,
/// C, D, ...): kernels run in the order of their stream, thread after thread.

#define __global__
#define __device__

struct Index {
  unsigned x = 0;
};
inline thread_local Index blockIdx;   // NOLINT(readability-identifier-naming)
inline thread_local Index blockDim;   // NOLINT(readability-identifier-naming)
inline thread_local Index threadIdx;  // NOLINT(readability-identifier-naming)

using cudaError_t = CUresult;
using cudaStream_t = CUstream;
inline constexpr cudaError_t cudaSuccess = CUDA_SUCCESS;
inline constexpr unsigned cudaStreamNonBlocking = CU_STREAM_NON_BLOCKING;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

/// What a launch gave that had no other way to say it.
inline thread_local cudaError_t last_launch = cudaSuccess;

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int threads, int /*shared_bytes*/,
            cudaStream_t stream, Arguments... arguments) {
  const auto run = [=] {
    blockDim.x = static_cast<unsigned>(threads);
    for (blockIdx.x = 0; blockIdx.x < static_cast<unsigned>(blocks); ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel(arguments...);
    }
  };
  using Run = decltype(run);
  auto kept = std::make_unique<Run>(run);
  const auto start = [](void* given) { (*std::unique_ptr<Run>(static_cast<Run*>(given)))(); };
  const cudaError_t code =
      cuLaunchHostFunc(stream, start, const_cast<void*>(static_cast<const void*>(kept.get())));
  if (code == cudaSuccess) {
    static_cast<void>(kept.release());  // the stream owns it
  } else {
    last_launch = code;
  }
}

inline cudaError_t cudaGetLastError() { return std::exchange(last_launch, cudaSuccess); }
inline const char* cudaGetErrorString(cudaError_t code) {
  const char* text = nullptr;
  return cuGetErrorString(code, &text) == CUDA_SUCCESS ? text : "an error without a text";
}

inline cudaError_t cudaSetDevice(int device) {
  CUcontext context = nullptr;
  if (const cudaError_t code = cuInit(0); code != cudaSuccess) return code;
  const cudaError_t code = cuDevicePrimaryCtxRetain(&context, device);
  return code == cudaSuccess ? cuCtxSetCurrent(context) : code;
}

template <typename T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  CUdeviceptr address = 0;
  const cudaError_t code = cuMemAlloc(&address, bytes);
  *memory = reinterpret_cast<T*>(address);
  return code;
}
inline cudaError_t cudaFree(void* memory) {
  return cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  return cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                       bytes, stream);
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                   cudaStream_t stream) {
  return cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), static_cast<unsigned char>(value),
                         bytes, stream);
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cuStreamCreate(stream, flags);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return cuStreamSynchronize(stream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cuStreamDestroy(stream); }
