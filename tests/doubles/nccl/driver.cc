// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace double_nccl {
namespace {

template <typename Function>
void find(Function& function, void* library, const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr && library != nullptr) symbol = dlsym(library, name);
  function = reinterpret_cast<Function>(symbol);
}

Driver load() {
  const char* path = std::getenv("HVD_CUDA_LIBRARY");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Driver found;
  find(found.launch_host_function, library, "cuLaunchHostFunc");
  find(found.is_capturing, library, "cuStreamIsCapturing");
  find(found.current_device, library, "cuCtxGetDevice");
  find(found.current_context, library, "cuCtxGetCurrent");
  find(found.set_context, library, "cuCtxSetCurrent");
  find(found.uuid, library, "cuDeviceGetUuid_v2");
  if (found.uuid == nullptr) find(found.uuid, library, "cuDeviceGetUuid");
  find(found.attribute, library, "cuDeviceGetAttribute");
  find(found.allocate, library, "cuMemAlloc_v2");
  find(found.deallocate, library, "cuMemFree_v2");
  return found;
}

int architecture_of(CUdevice device) {
  int major = 0;
  int minor = 0;
  if (driver().attribute != nullptr) {
    driver().attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver().attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  }
  return major * 10 + minor;
}

}  // namespace

const Driver& driver() {
  static const Driver found = load();
  return found;
}

CurrentGpu current_gpu() {
  static const std::string host = [] {
    const char* id = std::getenv("NCCL_HOSTID");
    return std::string(id == nullptr ? "" : id);
  }();
  CurrentGpu gpu;
  CUdevice device = 0;
  CUuuid uuid{};
  const bool has_driver = driver().launch_host_function != nullptr &&
                          driver().current_device != nullptr && driver().uuid != nullptr;
  if (!has_driver || driver().current_device(&device) != CUDA_SUCCESS ||
      driver().uuid(&uuid, device) != CUDA_SUCCESS ||
      driver().current_context(&gpu.context) != CUDA_SUCCESS) {
    return gpu;
  }
  gpu.device = device;
  gpu.architecture = architecture_of(device);
  gpu.name = host.substr(0, 48) + "/";
  for (const char byte : uuid.bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    gpu.name += digits;
  }
  return gpu;
}

}  // namespace double_nccl
