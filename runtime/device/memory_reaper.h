// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/gpu.h"

namespace hvd {

/// Frees memory of GPUs on a thread of its own: drivers wait for the device as they do, which also
/// lets what streams still do with the memory come first. The thread starts with the first free().
/// Thread-safe.
class MemoryReaper {
 public:
  MemoryReaper() = default;
  MemoryReaper(const MemoryReaper&) = delete;
  MemoryReaper& operator=(const MemoryReaper&) = delete;
  /// Frees the rest.
  ~MemoryReaper();

  void free(Gpu& gpu, void* memory);

 private:
  using Memory = std::pair<Gpu*, void*>;
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::vector<Memory> waiting_ HVD_GUARDED_BY(mutex_);
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hvd
