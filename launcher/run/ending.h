// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "base/deadline.h"

namespace hvd {

/// Decides how a job comes to its end: after the first failure the other ranks have a grace, then
/// get SIGTERM, and 5 s later SIGKILL. Knows no processes: the caller sends what it returns.
/// Not thread-safe.
class Ending {
 public:
  explicit Ending(std::chrono::milliseconds grace) : grace_(grace) {}

  /// A rank failed. True the first time: this is the failure to report.
  bool rank_failed(int exit_code, Clock::time_point now);
  /// hvdrun got SIGINT, SIGTERM or SIGHUP: what to send to the ranks. The second time: SIGKILL.
  int told_to_end(int signal, Clock::time_point now);
  /// The time for the next step came: what to send; nothing when it is too early.
  std::optional<int> advance(Clock::time_point now);

  /// When `advance` has something to do.
  Deadline next() const { return next_; }
  /// hvdrun's exit code when all ranks are gone.
  int exit_code() const { return exit_code_; }

 private:
  enum class Stage { kRunning, kGrace, kTerminated, kKilled };
  void enter(Stage stage, Deadline next) {
    stage_ = stage;
    next_ = next;
  }

  std::chrono::milliseconds grace_;
  Stage stage_ = Stage::kRunning;
  Deadline next_ = kForever;
  int exit_code_ = 0;
  bool failed_ = false;
  bool told_ = false;
};

}  // namespace hvd
