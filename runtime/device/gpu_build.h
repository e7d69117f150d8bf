// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/gpu_driver_settings.h"

namespace hvd {

/// Something that GPUs need, and whether this build and this machine have it.
struct GpuPart {
  std::string name;
  bool is_there = false;
  std::string reason;  ///< What there is, or why not and what to do.
};

/// The driver's library. It is loaded for the answer; no GPU is touched, so that a process may
/// still fork.
GpuPart describe_gpu_driver(const GpuDriverSettings& settings);
/// The architectures that this build has kernels for.
GpuPart describe_gpu_kernels();

}  // namespace hvd
