// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hvd::doubles {

/// A kernel of device/kernels, compiled for the host: what the driver's double runs in its place.
struct HostKernel {
  const char* name;
  /// Size of its one argument, a struct of device/kernels/kernel_arguments.h: a launch copies it,
  /// as the driver does.
  std::size_t argument_bytes;
  /// `arguments` as those of cuLaunchKernel. Runs on the thread of the stream.
  void (*run)(unsigned blocks, unsigned threads, void** arguments);
};

/// Null: there is no such kernel. Defined by the host build of the kernels.
const HostKernel* find_host_kernel(std::string_view name);
std::vector<HostKernel> all_host_kernels();

}  // namespace hvd::doubles
