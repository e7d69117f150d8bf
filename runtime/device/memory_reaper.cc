// SPDX-License-Identifier: Apache-2.0
#include "device/memory_reaper.h"

#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "device/timed_call.h"

namespace hvd {

struct MemoryReaper::Queue {
  struct Item {
    Gpu* gpu;
    void* memory;
    bool is_pinned;
    std::vector<GpuEventPtr> after;
  };
  Mutex mutex;
  CondVar changed;
  std::vector<Item> waiting HVD_GUARDED_BY(mutex);
  bool stop HVD_GUARDED_BY(mutex) = false;
  bool has_thread HVD_GUARDED_BY(mutex) = false;
};

MemoryReaper::MemoryReaper() : queue_(std::make_shared<Queue>()) {}

MemoryReaper::~MemoryReaper() {
  Queue& queue = *queue_;
  const Deadline deadline = Deadline::after(kDevicePatience);
  Lock lock(queue.mutex);
  queue.stop = true;
  queue.changed.notify_all();
  while (queue.has_thread && queue.changed.wait_until(queue.mutex, deadline)) {
  }
  if (!queue.has_thread) return;
  log(LogLevel::kWarning, "device",
      "a GPU has not come to an end within {} s: memory that waits for it is left behind",
      kDevicePatience.count());
}

void MemoryReaper::free(Gpu& gpu, void* memory, std::vector<GpuEventPtr> after) {
  put(gpu, memory, false, std::move(after));
}

void MemoryReaper::free_pinned(Gpu& gpu, void* memory) { put(gpu, memory, true, {}); }

void MemoryReaper::put(Gpu& gpu, void* memory, bool is_pinned, std::vector<GpuEventPtr> after) {
  Queue& queue = *queue_;
  Lock lock(queue.mutex);
  queue.waiting.push_back({&gpu, memory, is_pinned, std::move(after)});
  if (!std::exchange(queue.has_thread, true)) {
    std::thread([shared = queue_] { run(*shared); }).detach();
  }
  queue.changed.notify_all();
}

void MemoryReaper::run(Queue& queue) {
  while (true) {
    std::vector<Queue::Item> items;
    {
      Lock lock(queue.mutex);
      while (!queue.stop && queue.waiting.empty()) queue.changed.wait_until(queue.mutex, kForever);
      if (queue.waiting.empty()) {
        queue.has_thread = false;
        queue.changed.notify_all();
        return;
      }
      items = std::exchange(queue.waiting, {});
    }
    for (const auto& [gpu, memory, is_pinned, after] : items) {
      for (const GpuEventPtr& point : after) static_cast<void>(point->gpu().wait(*point));
      is_pinned ? gpu->deallocate_pinned(memory) : gpu->deallocate(memory);
    }
  }
}

}  // namespace hvd
