// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/deadline.h"

#if defined(__clang__)
#define HVD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HVD_THREAD_ANNOTATION(x)
#endif

/// Thread-safety annotations, checked by clang's -Wthread-safety.
#define HVD_GUARDED_BY(mutex) HVD_THREAD_ANNOTATION(guarded_by(mutex))
#define HVD_REQUIRES(mutex) HVD_THREAD_ANNOTATION(requires_capability(mutex))
#define HVD_RETURN_CAPABILITY(mutex) HVD_THREAD_ANNOTATION(lock_returned(mutex))
#define HVD_EXCLUDES(mutex) HVD_THREAD_ANNOTATION(locks_excluded(mutex))

namespace hvd {

/// A mutex that clang's thread-safety analysis knows. Thread-safe.
class HVD_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() HVD_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() HVD_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  bool try_lock() HVD_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for its scope.
class HVD_THREAD_ANNOTATION(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) HVD_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~Lock() HVD_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition variable over Mutex, with deadlines. Thread-safe.
class CondVar {
 public:
  /// Waits for a notification or the deadline; may wake without either. False: deadline passed.
  bool wait_until(Mutex& mutex, Deadline deadline) HVD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool in_time = true;
    if (deadline.is_forever()) {
      condition_.wait(lock);
    } else {
      in_time = condition_.wait_until(lock, deadline.time()) == std::cv_status::no_timeout;
    }
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace hvd
