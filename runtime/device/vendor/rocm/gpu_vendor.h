// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions alone: their templates of the same names have no one address.
#define __HIP_DISABLE_CPP_FUNCTIONS__  // NOLINT(bugprone-reserved-identifier)
#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <string>

#include "device/device.h"

/// AMD's HIP (ROCm 6 and newer) under the names that device/ uses for every vendor's; as
/// vendor/cuda/gpu_vendor.h.
///
/// X(name in DriverFunctions, function)
#define HVD_GPU_DRIVER_FUNCTIONS(X)                            \
  X(initialise, hipInit)                                       \
  X(driver_version, hipDriverGetVersion)                       \
  X(error_name, hipDrvGetErrorName)                            \
  X(error_text, hipDrvGetErrorString)                          \
  X(device_count, hipGetDeviceCount)                           \
  X(device_get, hipDeviceGet)                                  \
  X(device_name, hipDeviceGetName)                             \
  X(device_uuid, hipDeviceGetUuid)                             \
  X(device_bus_id, hipDeviceGetPCIBusId)                       \
  X(device_attribute, hipDeviceGetAttribute)                   \
  X(device_can_reach, hipDeviceCanAccessPeer)                  \
  X(context_retain, hipDevicePrimaryCtxRetain)                 \
  X(context_release, hipDevicePrimaryCtxRelease)               \
  X(context_push, hipCtxPushCurrent)                           \
  X(context_pop, hipCtxPopCurrent)                             \
  X(current, hipGetDevice)                                     \
  X(stream_priorities, hipDeviceGetStreamPriorityRange)        \
  X(stream_create, hipStreamCreateWithPriority)                \
  X(stream_destroy, hipStreamDestroy)                          \
  X(stream_owner, hipStreamGetDevice)                          \
  X(stream_is_capturing, hipStreamIsCapturing)                 \
  X(stream_wait_event, hipStreamWaitEvent)                     \
  X(stream_begin_capture, hipStreamBeginCapture)               \
  X(stream_end_capture, hipStreamEndCapture)                   \
  X(exchange_capture_mode, hipThreadExchangeStreamCaptureMode) \
  X(event_create, hipEventCreateWithFlags)                     \
  X(event_destroy, hipEventDestroy)                            \
  X(event_record, hipEventRecord)                              \
  X(event_query, hipEventQuery)                                \
  X(event_wait, hipEventSynchronize)                           \
  X(memory_allocate, hipMalloc)                                \
  X(memory_free, hipFree)                                      \
  X(pinned_allocate, hipHostMalloc)                            \
  X(pinned_free, hipHostFree)                                  \
  X(copy, hipMemcpyAsync)                                      \
  X(set_bytes, hipMemsetD8Async)                               \
  X(module_load, hipModuleLoadData)                            \
  X(module_unload, hipModuleUnload)                            \
  X(module_function, hipModuleGetFunction)                     \
  X(launch, hipModuleLaunchKernel)                             \
  X(graph_instantiate, hipGraphInstantiateWithFlags)           \
  X(graph_launch, hipGraphLaunch)                              \
  X(graph_destroy, hipGraphDestroy)                            \
  X(graph_instance_destroy, hipGraphExecDestroy)

namespace hvd::vendor {

using ErrorCode = hipError_t;
using DeviceNumber = hipDevice_t;
using DeviceAttribute = hipDeviceAttribute_t;
using DeviceUuid = hipUUID;
using Context = hipCtx_t;
using Stream = hipStream_t;
using StreamOwner = hipDevice_t;
using Event = hipEvent_t;
using Module = hipModule_t;
using Function = hipFunction_t;
using Graph = hipGraph_t;
using GraphInstance = hipGraphExec_t;
using CaptureStatus = hipStreamCaptureStatus;
using CaptureMode = hipStreamCaptureMode;
using Address = hipDeviceptr_t;

inline constexpr DeviceKind kDeviceKind = DeviceKind::kRocm;
inline constexpr const char* kPlatform = "ROCm";
inline constexpr const char* kVendor = "AMD";
/// The first of these that there is.
inline constexpr std::array kDriverLibraries{"libamdhip64.so.7", "libamdhip64.so.6",
                                             "libamdhip64.so"};
inline constexpr const char* kDriverVariable = "HVD_HIP_LIBRARY";
inline constexpr const char* kVisibleVariable = "HIP_VISIBLE_DEVICES";
/// The kernel lists GPUs among CPUs.
inline constexpr const char* kGpusOnNode = "";
inline constexpr const char* kKernelsNote = "";

inline constexpr ErrorCode kSuccess = hipSuccess;
inline constexpr ErrorCode kNotReady = hipErrorNotReady;
inline constexpr ErrorCode kNoDevice = hipErrorNoDevice;
inline constexpr ErrorCode kInvalidHandle = hipErrorInvalidHandle;
inline constexpr ErrorCode kNotSupported = hipErrorNotSupported;
/// The default stream, while a stream is captured that takes turns with it.
inline constexpr ErrorCode kCaptureInTurn = hipErrorStreamCaptureImplicit;
inline constexpr DeviceAttribute kMajor = hipDeviceAttributeComputeCapabilityMajor;
inline constexpr DeviceAttribute kMinor = hipDeviceAttributeComputeCapabilityMinor;
inline constexpr DeviceAttribute kMultiprocessors = hipDeviceAttributeMultiprocessorCount;
inline constexpr unsigned kStreamFlags = hipStreamNonBlocking;
inline constexpr unsigned kEventFlags = hipEventDisableTiming | hipEventBlockingSync;
inline constexpr unsigned kPinnedFlags = hipHostMallocPortable;
inline constexpr CaptureStatus kNotCapturing = hipStreamCaptureStatusNone;
/// What a thread must not do while a stream is captured: of its own captures, or at all.
inline constexpr CaptureMode kOwnCaptures = hipStreamCaptureModeThreadLocal;
inline constexpr CaptureMode kNoCaptures = hipStreamCaptureModeRelaxed;

/// One file has the code for all GPUs, named gfx90a and so on: the driver takes its own.
inline int architecture(int, int) { return 0; }
inline std::string architecture_name(int number) {
  return number == 0 ? "one file for the AMD GPUs of this build" : std::to_string(number);
}

inline Address to_address(const void* memory) { return const_cast<void*>(memory); }
inline void* to_pointer(Address address) { return address; }
inline bool is_per_thread(Stream stream) { return stream == hipStreamPerThread; }
/// The null stream belongs to the GPU that is current.
inline bool is_of(StreamOwner owner, Context, DeviceNumber number) { return owner == number; }

/// 60342134: "6.3".
inline std::string version_text(int number) {
  return std::to_string(number / 10'000'000) + '.' + std::to_string(number % 10'000'000 / 100'000);
}

template <typename Driver>
ErrorCode copy(const Driver& driver, void* to, const void* from, std::size_t bytes, Stream stream) {
  return driver.copy.call(to, from, bytes, hipMemcpyDefault, stream);
}

/// What to do about a code; "" where its own text says enough.
inline const char* remedy(ErrorCode code) {
  switch (code) {
    case hipErrorOutOfMemory:
      return "rocm-smi shows who holds the memory of the GPU; a smaller batch needs less";
    case hipErrorNoDevice:
      return "ask Slurm for GPUs (--gpus-per-node), look at HIP_VISIBLE_DEVICES and rocm-smi";
    case hipErrorInsufficientDriver:
      return "the driver of this node is older than its ROCm library";
    case hipErrorNoBinaryForGpu:
    case hipErrorSharedObjectInitFailed:
      return "hvdrun check --build lists the GPUs that this build has kernels for";
    case hipErrorIllegalAddress:
    case hipErrorLaunchFailure:
      return "something that ran on the GPU before spoilt it for this process, not always what "
             "this call began: AMD_SERIALIZE_KERNEL=3 shows what";
    case hipErrorNotInitialized:
      return "a child of fork() cannot use the GPU of its parent: begin the process anew (spawn)";
    default:
      return "";
  }
}

}  // namespace hvd::vendor
