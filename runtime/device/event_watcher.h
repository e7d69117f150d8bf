// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "device/gpu.h"

namespace hvd {

/// Tells when points of one stream have come, on a thread that sleeps until then: nobody polls for
/// the device. The thread starts with the first watch(). Thread-safe.
class EventWatcher {
 public:
  EventWatcher() = default;
  EventWatcher(const EventWatcher&) = delete;
  EventWatcher& operator=(const EventWatcher&) = delete;
  /// Waits for the event that is being waited for; tells of no other. A stream that hangs must be
  /// aborted first.
  ~EventWatcher();

  /// Calls `then` with the outcome once the event has come; in the order of the calls of watch(),
  /// without a lock held.
  void watch(GpuEventPtr event, std::function<void(const Status&)> then);

 private:
  using Watched = std::pair<GpuEventPtr, std::function<void(const Status&)>>;
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Watched> watched_ HVD_GUARDED_BY(mutex_);
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hvd
