// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <string>

#include "device/device.h"

/// NVIDIA's driver interface under the names that device/ uses for every vendor's. The header alone
/// is used: nothing is linked. Its macros name the versions of the functions that fit its types
/// (cuMemAlloc is cuMemAlloc_v2), and so the symbols that are looked for.
///
/// X(name in DriverFunctions, function)
#define HVD_GPU_DRIVER_FUNCTIONS(X)                           \
  X(initialise, cuInit)                                       \
  X(driver_version, cuDriverGetVersion)                       \
  X(error_name, cuGetErrorName)                               \
  X(error_text, cuGetErrorString)                             \
  X(device_count, cuDeviceGetCount)                           \
  X(device_get, cuDeviceGet)                                  \
  X(device_name, cuDeviceGetName)                             \
  X(device_uuid, cuDeviceGetUuid_v2)                          \
  X(device_bus_id, cuDeviceGetPCIBusId)                       \
  X(device_attribute, cuDeviceGetAttribute)                   \
  X(device_can_reach, cuDeviceCanAccessPeer)                  \
  X(context_retain, cuDevicePrimaryCtxRetain)                 \
  X(context_release, cuDevicePrimaryCtxRelease)               \
  X(context_push, cuCtxPushCurrent)                           \
  X(context_pop, cuCtxPopCurrent)                             \
  X(current, cuCtxGetCurrent)                                 \
  X(stream_priorities, cuCtxGetStreamPriorityRange)           \
  X(stream_create, cuStreamCreateWithPriority)                \
  X(stream_destroy, cuStreamDestroy)                          \
  X(stream_owner, cuStreamGetCtx)                             \
  X(stream_is_capturing, cuStreamIsCapturing)                 \
  X(stream_wait_event, cuStreamWaitEvent)                     \
  X(stream_begin_capture, cuStreamBeginCapture)               \
  X(stream_end_capture, cuStreamEndCapture)                   \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode) \
  X(event_create, cuEventCreate)                              \
  X(event_destroy, cuEventDestroy)                            \
  X(event_record, cuEventRecord)                              \
  X(event_query, cuEventQuery)                                \
  X(event_wait, cuEventSynchronize)                           \
  X(memory_allocate, cuMemAlloc)                              \
  X(memory_free, cuMemFree)                                   \
  X(pinned_allocate, cuMemHostAlloc)                          \
  X(pinned_free, cuMemFreeHost)                               \
  X(copy, cuMemcpyAsync)                                      \
  X(set_bytes, cuMemsetD8Async)                               \
  X(module_load, cuModuleLoadData)                            \
  X(module_unload, cuModuleUnload)                            \
  X(module_function, cuModuleGetFunction)                     \
  X(launch, cuLaunchKernel)                                   \
  X(graph_instantiate, cuGraphInstantiateWithFlags)           \
  X(graph_launch, cuGraphLaunch)                              \
  X(graph_destroy, cuGraphDestroy)                            \
  X(graph_instance_destroy, cuGraphExecDestroy)

namespace hvd::vendor {

using ErrorCode = CUresult;
using DeviceNumber = CUdevice;
using DeviceAttribute = CUdevice_attribute;
using DeviceUuid = CUuuid;
using Context = CUcontext;
using Stream = CUstream;
using StreamOwner = CUcontext;
using Event = CUevent;
using Module = CUmodule;
using Function = CUfunction;
using Graph = CUgraph;
using GraphInstance = CUgraphExec;
using CaptureStatus = CUstreamCaptureStatus;
using CaptureMode = CUstreamCaptureMode;
using Address = CUdeviceptr;

inline constexpr DeviceKind kDeviceKind = DeviceKind::kCuda;
inline constexpr const char* kPlatform = "CUDA";
inline constexpr const char* kVendor = "NVIDIA";
/// The first of these that there is.
inline constexpr std::array kDriverLibraries{"libcuda.so.1"};
inline constexpr const char* kDriverVariable = "HVD_CUDA_LIBRARY";
inline constexpr const char* kVisibleVariable = "CUDA_VISIBLE_DEVICES";
/// A folder with an entry for each.
inline constexpr const char* kGpusOnNode = "/proc/driver/nvidia/gpus";
inline constexpr const char* kKernelsNote = "; the driver compiles for newer GPUs";

inline constexpr ErrorCode kSuccess = CUDA_SUCCESS;
inline constexpr ErrorCode kNotReady = CUDA_ERROR_NOT_READY;
inline constexpr ErrorCode kNoDevice = CUDA_ERROR_NO_DEVICE;
inline constexpr ErrorCode kInvalidHandle = CUDA_ERROR_INVALID_HANDLE;
inline constexpr ErrorCode kNotSupported = CUDA_ERROR_NOT_SUPPORTED;
/// The default stream, while a stream is captured that takes turns with it.
inline constexpr ErrorCode kCaptureInTurn = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
inline constexpr DeviceAttribute kMajor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
inline constexpr DeviceAttribute kMinor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
inline constexpr DeviceAttribute kMultiprocessors = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
inline constexpr unsigned kStreamFlags = CU_STREAM_NON_BLOCKING;
inline constexpr unsigned kEventFlags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
inline constexpr unsigned kPinnedFlags = CU_MEMHOSTALLOC_PORTABLE;
inline constexpr CaptureStatus kNotCapturing = CU_STREAM_CAPTURE_STATUS_NONE;
/// What a thread must not do while a stream is captured: of its own captures, or at all.
inline constexpr CaptureMode kOwnCaptures = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
inline constexpr CaptureMode kNoCaptures = CU_STREAM_CAPTURE_MODE_RELAXED;

inline int architecture(int major, int minor) { return major * 10 + minor; }
inline std::string architecture_name(int number) { return "sm_" + std::to_string(number); }

inline Address to_address(const void* memory) { return reinterpret_cast<Address>(memory); }
/// CUDA gives addresses as integers.
inline void* to_pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
/// Each thread has a stream of its own under this handle: another thread cannot mean it.
inline bool is_per_thread(Stream stream) { return stream == CU_STREAM_PER_THREAD; }
/// The null stream belongs to the GPU that is current.
inline bool is_of(StreamOwner owner, Context context, DeviceNumber) { return owner == context; }

/// 12040: "12.4".
inline std::string version_text(int number) {
  return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
}

template <typename Driver>
ErrorCode copy(const Driver& driver, void* to, const void* from, std::size_t bytes, Stream stream) {
  return driver.copy.call(to_address(to), to_address(from), bytes, stream);
}

/// What to do about a code; "" where its own text says enough.
inline const char* remedy(ErrorCode code) {
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "nvidia-smi shows who holds the memory of the GPU; a smaller batch needs less";
    case CUDA_ERROR_NO_DEVICE:
      return "ask Slurm for GPUs (--gpus-per-node), look at CUDA_VISIBLE_DEVICES and nvidia-smi";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "the container's driver library does not fit the kernel module of this node: mount "
             "the node's (apptainer --nv)";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "nvidia-fabricmanager does not run on this node: tell its administrators";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "another process holds the GPU for itself: one rank per GPU, or compute mode Default";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "hvdrun check --build lists the architectures that this build has kernels for";
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "the driver is older than the CUDA that compiled the kernels of this build: a newer "
             "driver, or a build with an older CUDA (-Dgpu_roots=), is needed";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return "the memory of this GPU is damaged: leave the node out (--exclude) and report it";
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      return "a fault of the hardware: leave the node out (--exclude) and report it";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
      return "something that ran on the GPU before spoilt it for this process, not always what "
             "this call began: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer show what";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "a child of fork() cannot use the GPU of its parent: begin the process anew (spawn)";
    default:
      return "";
  }
}

}  // namespace hvd::vendor
