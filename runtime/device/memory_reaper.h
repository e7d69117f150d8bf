// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/gpu.h"

namespace hvd {

/// Frees memory of GPUs on a thread of its own: drivers may wait for the device as they do. The
/// thread starts with the first free(). Thread-safe.
class MemoryReaper {
 public:
  MemoryReaper();
  MemoryReaper(const MemoryReaper&) = delete;
  MemoryReaper& operator=(const MemoryReaper&) = delete;
  /// Frees the rest. Where a device hangs, memory and thread are left behind after kDevicePatience.
  ~MemoryReaper();

  /// Behind the points `after`: drivers need not wait for what streams still do with the memory.
  void free(Gpu& gpu, void* memory, std::vector<GpuEventPtr> after = {});
  void free_pinned(Gpu& gpu, void* memory);

 private:
  struct Queue;
  static void run(Queue& queue);
  void put(Gpu& gpu, void* memory, bool is_pinned, std::vector<GpuEventPtr> after);

  std::shared_ptr<Queue> queue_;  ///< With the thread, which may outlive us.
};

}  // namespace hvd
