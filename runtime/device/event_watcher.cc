// SPDX-License-Identifier: Apache-2.0
#include "device/event_watcher.h"

namespace hvd {

EventWatcher::~EventWatcher() {
  {
    Lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void EventWatcher::watch(GpuEventPtr event, std::function<void(const Status&)> then) {
  Lock lock(mutex_);
  watched_.emplace_back(std::move(event), std::move(then));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void EventWatcher::run() {
  while (true) {
    Watched next;
    {
      Lock lock(mutex_);
      while (!stop_ && watched_.empty()) changed_.wait_until(mutex_, kForever);
      if (stop_) return;
      next = std::move(watched_.front());
      watched_.pop_front();
    }
    next.second(next.first->gpu().wait(*next.first));
  }
}

}  // namespace hvd
