// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "engine/request/handle_table.h"
#include "engine/request/pending_request.h"

namespace hvd {

/// Stage five, reduced -> completed: handles, waiting callers and callbacks.
/// Thread-safe.
class Completion {
 public:
  /// Counts handles from `first_handle` on.
  explicit Completion(std::uint64_t first_handle) : by_handle_(first_handle) {}

  /// Gives the request a handle.
  PendingPtr add(Request&& request);
  /// The same for one that has begun.
  std::uint64_t add(const PendingPtr& pending);
  Result<PendingPtr> find(std::uint64_t handle);
  Result<std::vector<PendingPtr>> find(std::span<const std::uint64_t> handles);
  /// The request, which nobody finds any more; null: unknown.
  PendingPtr release(std::uint64_t handle);

  /// Ends the request, once; its callback waits for run_callbacks().
  void finish(const PendingPtr& pending, const Status& status);
  /// Calls the callbacks of finished requests. Hold no lock.
  void run_callbacks();
  bool has_callbacks() const { return has_callbacks_.load(); }

  /// Wakes every sleeper to look at its predicate again.
  void wake_all();
  /// Waits until `done()` holds, which is looked at after each wake_all() or finish().
  template <typename Done>
  bool wait_until(Done&& done, Deadline deadline) {
    Lock lock(mutex_);
    sleepers_.fetch_add(1);
    bool in_time = true;
    while (!done() && in_time) in_time = changed_.wait_until(mutex_, deadline);
    sleepers_.fetch_sub(1);
    return done();
  }

 private:
  Result<PendingPtr> find_locked(std::uint64_t handle) HVD_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  HandleTable by_handle_ HVD_GUARDED_BY(mutex_);
  std::vector<PendingPtr> callbacks_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> has_callbacks_{false};
  std::atomic<int> sleepers_{0};
};

}  // namespace hvd
