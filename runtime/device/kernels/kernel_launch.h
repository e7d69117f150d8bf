// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "device/gpu.h"
#include "device/kernels/kernel_arguments.h"

namespace hvd {

/// One launch of a kernel of device/kernels.
template <typename Arguments>
struct KernelLaunch {
  std::string_view kernel;
  LaunchShape shape;
  Arguments arguments;
};

template <typename Arguments>
Status enqueue(Gpu& gpu, const KernelLaunch<Arguments>& launch, StreamHandle stream) {
  HVD_TRY_ASSIGN(void* const kernel, gpu.kernel(launch.kernel));
  void* argument = const_cast<Arguments*>(&launch.arguments);  // the driver copies it
  return gpu.launch(kernel, launch.shape, std::span(&argument, 1), stream);
}

/// Puts the launches into `stream`, in order.
template <typename Arguments>
Status enqueue(Gpu& gpu, const std::vector<KernelLaunch<Arguments>>& launches,
               StreamHandle stream) {
  for (const KernelLaunch<Arguments>& launch : launches) HVD_TRY(enqueue(gpu, launch, stream));
  return Status::ok();
}

}  // namespace hvd
