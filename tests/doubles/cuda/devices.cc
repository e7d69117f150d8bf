// SPDX-License-Identifier: Apache-2.0
#include "devices.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "calls.h"
#include "double_cuda.h"
#include "streams.h"

namespace double_cuda {
namespace {

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// The GPUs of this process, read from the environment once. Leaked, as Calls.
struct Devices {
  Devices() {
    const int there = number("HVD_DOUBLE_GPUS", 2);
    if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      std::stringstream entries(visible);
      std::string entry;
      while (std::getline(entries, entry, ',')) {
        const int gpu = std::atoi(entry.c_str());
        if (entry.empty() || gpu < 0 || gpu >= there) break;  // as the driver: the rest is unseen
        add(gpu);
      }
      return;
    }
    for (int gpu = 0; gpu < there; gpu++) add(gpu);
  }

  void add(int gpu) {
    auto context = std::make_unique<CUctx_st>();
    context->device = static_cast<int>(contexts.size());
    context->stream = make_stream(context.get(), 0, 0);
    contexts.push_back(std::move(context));
    gpus.push_back(gpu);
  }

  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::vector<int> gpus;  ///< The numbers on the machine.
  const int architecture = number("HVD_DOUBLE_ARCHITECTURE", 80);
  const bool has_peers = number("HVD_DOUBLE_PEERS", 1) != 0;
  std::atomic<bool> peers{has_peers};
};

Devices& devices() {
  static Devices* const all = new Devices;
  return *all;
}

std::atomic<pid_t> initialised_by{0};
std::atomic<bool> has_ended{false};

/// The contexts that a thread has pushed. Trivial: at the end of a process libhvd pushes one when
/// the main thread's objects are gone.
struct Current {
  std::array<CUcontext, 16> contexts;
  std::size_t depth;
};
thread_local constinit Current current = {};

bool is_device(CUdevice device) { return device >= 0 && device < device_count(); }

}  // namespace

bool has_driver_ended() { return has_ended.load(); }
bool is_initialised() { return initialised_by.load() == ::getpid(); }
int device_count() { return static_cast<int>(devices().contexts.size()); }
int architecture() { return devices().architecture; }
CUcontext context_of(int device) {
  return is_device(device) ? devices().contexts[static_cast<std::size_t>(device)].get() : nullptr;
}
CUcontext current_context() {
  return current.depth == 0 ? nullptr : current.contexts[current.depth - 1];
}
void heal_devices() {
  for (auto& context : devices().contexts) context->fault = CUDA_SUCCESS;
  devices().peers = devices().has_peers;
}

}  // namespace double_cuda

using namespace double_cuda;  // NOLINT(google-build-using-namespace)

void double_spoil(int device, CUresult code) {
  if (const CUcontext context = context_of(device)) context->fault = code;
}

void double_peers(int reach) { devices().peers = reach != 0; }

CUresult cuInit(unsigned flags) {
  DOUBLE_BEGIN(cuInit, kNothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  pid_t nobody = 0;
  if (!initialised_by.compare_exchange_strong(nobody, ::getpid()) && !is_initialised()) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (nobody == 0) std::atexit([] { has_ended.store(true); });
  return device_count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  DOUBLE_BEGIN(cuDriverGetVersion, kNothing);
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  DOUBLE_BEGIN(cuDeviceGetCount, kDriver);
  *count = device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  DOUBLE_BEGIN(cuDeviceGet, kDriver);
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  DOUBLE_BEGIN(cuDeviceGetName, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "Double of a GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  DOUBLE_BEGIN(cuDeviceGetUuid_v2, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid->bytes, 0xd0, sizeof(uuid->bytes));
  uuid->bytes[15] = static_cast<char>(devices().gpus[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  DOUBLE_BEGIN(cuDeviceGetPCIBusId, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                0x1A + devices().gpus[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  DOUBLE_BEGIN(cuDeviceGetAttribute, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = devices().architecture / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = devices().architecture % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* yes, CUdevice device, CUdevice peer) {
  DOUBLE_BEGIN(cuDeviceCanAccessPeer, kDriver);
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *yes = device != peer && devices().peers.load() ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  DOUBLE_BEGIN(cuDevicePrimaryCtxRetain, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = context_of(device);
  if ((*context)->fault.load() != CUDA_SUCCESS) return (*context)->fault.load();
  (*context)->references++;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  DOUBLE_BEGIN(cuDevicePrimaryCtxRelease, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (context_of(device)->references.load() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  context_of(device)->references--;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  DOUBLE_BEGIN(cuCtxPushCurrent, kDriver);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->references.load() == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (current.depth == current.contexts.size()) return CUDA_ERROR_OUT_OF_MEMORY;
  current.contexts[current.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  DOUBLE_BEGIN(cuCtxPopCurrent, kDriver);
  if (current.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  current.depth--;
  if (context != nullptr) *context = current.contexts[current.depth];
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  DOUBLE_BEGIN(cuCtxSetCurrent, kDriver);
  if (current.depth > 0) current.depth--;
  if (context != nullptr) current.contexts[current.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  DOUBLE_BEGIN(cuCtxGetCurrent, kDriver);
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  DOUBLE_BEGIN(cuCtxGetDevice, kContext);
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  DOUBLE_BEGIN(cuCtxGetStreamPriorityRange, kContext);
  *lowest = 0;
  *highest = -5;
  return CUDA_SUCCESS;
}
