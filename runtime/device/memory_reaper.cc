// SPDX-License-Identifier: Apache-2.0
#include "device/memory_reaper.h"

namespace hvd {

MemoryReaper::~MemoryReaper() {
  {
    Lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void MemoryReaper::free(Gpu& gpu, void* memory) {
  Lock lock(mutex_);
  waiting_.emplace_back(&gpu, memory);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void MemoryReaper::run() {
  while (true) {
    std::vector<Memory> memory;
    {
      Lock lock(mutex_);
      while (!stop_ && waiting_.empty()) changed_.wait_until(mutex_, kForever);
      if (waiting_.empty()) return;
      memory = std::exchange(waiting_, {});
    }
    for (const auto& [gpu, place] : memory) gpu->deallocate(place);
  }
}

}  // namespace hvd
