// SPDX-License-Identifier: Apache-2.0
// Modules and kernels: whatever the image holds, the kernels are those of the host build.
#include <cuda.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "calls.h"
#include "capture.h"
#include "devices.h"
#include "doubles/kernels/host_kernel.h"
#include "streams.h"

struct CUmod_st {
  CUcontext context = nullptr;
};
struct CUfunc_st {
  CUcontext context = nullptr;
  const hvd::doubles::HostKernel* kernel = nullptr;
};

using namespace double_cuda;  // NOLINT(google-build-using-namespace)

namespace {

/// Code for a GPU, or text that the driver compiles.
bool is_image(const void* image) {
  const auto* const text = static_cast<const char*>(image);
  if (std::memcmp(text,
                  "\x7f"
                  "ELF",
                  4) == 0)
    return true;
  return std::string_view(text).find(".version") != std::string_view::npos;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  DOUBLE_BEGIN(cuModuleLoadData, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (image == nullptr || !is_image(image)) return CUDA_ERROR_INVALID_IMAGE;
  *module = new CUmod_st{current_context()};
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  DOUBLE_BEGIN(cuModuleUnload, kContext);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  DOUBLE_BEGIN(cuModuleGetFunction, kContext);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto* const kernel = hvd::doubles::find_host_kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  static std::vector<std::unique_ptr<CUfunc_st>>* const functions =
      new std::vector<std::unique_ptr<CUfunc_st>>;
  static std::mutex* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  functions->push_back(std::make_unique<CUfunc_st>(CUfunc_st{module->context, kernel}));
  *function = functions->back().get();
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                        CUstream handle, void** arguments, void** extra) {
  DOUBLE_BEGIN(cuLaunchKernel, kContext);
  constexpr unsigned kMostThreads = 1024;
  const CUstream stream = stream_of(handle);
  if (function == nullptr || stream == nullptr || stream->context != function->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > kMostThreads ||
      block_y != 1 || block_z != 1 || arguments == nullptr || extra != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto* const kernel = function->kernel;
  const auto* const first = static_cast<const char*>(arguments[0]);
  std::vector<char> copied(first, first + kernel->argument_bytes);
  return put(stream, [kernel, grid_x, block_x, copied = std::move(copied)]() mutable {
    void* argument = copied.data();
    kernel->run(grid_x, block_x, &argument);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* context) {
  DOUBLE_BEGIN(cuLaunchHostFunc, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return put(stream, [function, context] { return function(context), CUDA_SUCCESS; });
}
