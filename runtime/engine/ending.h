// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/mutex.h"
#include "base/status.h"

namespace hvd {

/// How far an epoch is on its way to its end, for every thread that has to do with it.
/// Thread-safe.
class Ending {
 public:
  /// Nothing runs any more; why() says why.
  bool is_over() const { return over_.load(); }
  Status why() const {
    Lock lock(mutex_);
    return why_;
  }
  /// Ends the epoch. Called once, under the progress lock.
  void end(const Status& why) {
    {
      Lock lock(mutex_);
      why_ = why;
    }
    over_.store(true);
  }

  /// This rank leaves: nothing new is taken. False where it did so before.
  bool begin_to_leave() { return !leaving_.exchange(true); }
  bool is_leaving() const { return leaving_.load(); }
  /// Nobody needs this rank any more: all have left, or it has left and misses nothing.
  void let_go() { let_go_.store(true); }
  bool is_let_go() const { return let_go_.load(); }
  /// All ranks have left, and none was lost on the way out.
  void leave_together() {
    together_.store(true);
    let_go();
  }
  bool left_together() const { return together_.load(); }

 private:
  mutable Mutex mutex_;
  Status why_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> over_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> let_go_{false};
  std::atomic<bool> together_{false};
};

}  // namespace hvd
