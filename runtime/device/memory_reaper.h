// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/gpu.h"

namespace hvd {

/// Frees memory of GPUs on a thread of its own: drivers wait for the device as they do, which also
/// lets what streams still do with the memory come first. The thread starts with the first free().
/// Thread-safe.
class MemoryReaper {
 public:
  MemoryReaper();
  MemoryReaper(const MemoryReaper&) = delete;
  MemoryReaper& operator=(const MemoryReaper&) = delete;
  /// Frees the rest. Where a device hangs, memory and thread are left behind after kDevicePatience.
  ~MemoryReaper();

  void free(Gpu& gpu, void* memory);
  void free_pinned(Gpu& gpu, void* memory);

 private:
  struct Queue;
  static void run(Queue& queue);
  void put(Gpu& gpu, void* memory, bool is_pinned);

  std::shared_ptr<Queue> queue_;  ///< With the thread, which may outlive us.
};

}  // namespace hvd
