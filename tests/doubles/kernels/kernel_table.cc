// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string_view>
#include <vector>

#include "host_kernel.h"
#include "kernel_language.cuh"

namespace hvd {
namespace {

std::map<std::string_view, doubles::HostKernel>& table() {
  static std::map<std::string_view, doubles::HostKernel> kernels;
  return kernels;
}

}  // namespace

kernels::ListedKernel::ListedKernel(const doubles::HostKernel& kernel) {
  table().emplace(kernel.name, kernel);
}

const doubles::HostKernel* doubles::find_host_kernel(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<doubles::HostKernel> doubles::all_host_kernels() {
  std::vector<HostKernel> all;
  for (const auto& [name, kernel] : table()) all.push_back(kernel);
  return all;
}

}  // namespace hvd

#include "device/kernels/kernels.cu"
