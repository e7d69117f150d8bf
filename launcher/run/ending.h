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
  /// hvdrun got SIGINT, SIGTERM or SIGHUP: what to send to the ranks. The second time SIGKILL; but
  /// a signal that comes again within a second is the same one, delivered twice (`timeout`, a
  /// wrapper, a terminal that closes), and a hang-up is nobody's wish to hurry: nothing then.
  std::optional<int> told_to_end(int signal, Clock::time_point now);
  /// Nobody reads hvdrun's output any more: what to send; nothing where the job ends already.
  std::optional<int> lost_reader(Clock::time_point now);
  /// The time for the next step came: what to send; nothing when it is too early.
  std::optional<int> advance(Clock::time_point now);
  /// Ranks and hvdrun were stopped for so long: no part of the grace.
  void was_stopped(Clock::duration duration);

  bool has_begun() const { return failed_ || told_; }
  bool is_told() const { return told_; }
  bool is_killed() const { return stage_ == Stage::kKilled; }
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
  Clock::time_point told_at_;
};

}  // namespace hvd
