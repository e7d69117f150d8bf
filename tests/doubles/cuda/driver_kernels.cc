// SPDX-License-Identifier: Apache-2.0
// Modules and kernels: whatever the image of a GPU holds, the kernels are those of the host build.
#include <cuda.h>
#include <elf.h>

#include <cstdlib>
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

/// 90 for sm_90. Code has it in its flags, since CUDA 12.8 elsewhere for GPUs from sm_100 on.
int architecture_of_code(const void* image) {
  constexpr int kElsewhere = 8;
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const bool is_elsewhere = header.e_ident[EI_ABIVERSION] >= kElsewhere;
  return static_cast<int>(is_elsewhere ? header.e_flags >> 8 & 0xffffU : header.e_flags & 0xffU);
}

/// The first architecture that text is for; 0: it does not say.
int architecture_of_text(std::string_view text) {
  constexpr std::string_view kTarget = ".target sm_";
  const auto place = text.find(kTarget);
  return place == text.npos ? 0 : std::atoi(text.data() + place + kTarget.size());
}

/// Code of the GPU's family, or text that the driver compiles; neither may be for newer GPUs.
CUresult check_image(const void* image, int architecture) {
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    const int own = architecture_of_code(image);
    const bool runs = own / 10 == architecture / 10 && own <= architecture;
    return runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  const std::string_view text(static_cast<const char*>(image));
  if (text.find(".version") == text.npos) return CUDA_ERROR_INVALID_IMAGE;
  return architecture_of_text(text) <= architecture ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  DOUBLE_BEGIN(cuModuleLoadData, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult code = check_image(image, architecture()); code != CUDA_SUCCESS) return code;
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
