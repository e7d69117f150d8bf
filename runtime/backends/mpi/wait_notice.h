// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace hvd {

/// Warns, from a thread of its own, as often as `period` passes while it lives: for calls of
/// others' libraries that take no deadline and cannot be left. Thread-safe.
class WaitNotice {
 public:
  WaitNotice(std::string what, std::chrono::milliseconds period);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  /// Times that it has warned.
  int count() const;

 private:
  void watch();

  const std::string what_;
  const std::chrono::milliseconds period_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool over_ HVD_GUARDED_BY(mutex_) = false;
  int count_ HVD_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace hvd
