// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.h"

#include <map>
#include <string>

#include "kernel_language.cuh"

namespace hvd::kernels {
namespace {

std::map<std::string, HvdKernelDouble>& table() {
  static std::map<std::string, HvdKernelDouble> kernels;
  return kernels;
}

}  // namespace

ListedKernel::ListedKernel(const char* name, HvdKernelDouble run) { table().emplace(name, run); }

}  // namespace hvd::kernels

HvdKernelDouble hvd_kernel_double(const char* name) {
  const auto found = hvd::kernels::table().find(name);
  return found == hvd::kernels::table().end() ? nullptr : found->second;
}

#include "device/kernels/kernels.cu"
