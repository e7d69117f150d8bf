// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"

namespace hvd {

/// A failure that srun tells on standard error.
struct TaskFailure {
  int rank = 0;
  std::string host;
  std::string what;   ///< "exit code 7", "signal 9 (Killed)"
  int exit_code = 1;  ///< The shell's: 128 + signal.
  int signal = 0;     ///< That ended it; 0: it exited.
};

/// Reads "srun: error: jz1: task 2: Exited with exit code 7" and "...: tasks 4-7: Killed" (then the
/// first of the tasks); nothing for any other line.
std::optional<TaskFailure> parse_task_failure(std::string_view line);

/// Decides which of the failures that srun tells is the first. srun tells them in any order: the
/// ranks of one node may have given up, with an exit code, before it tells that a rank of another
/// node was killed. So a failure with an exit code waits a short while for one by a signal that a
/// rank does not give itself. Not thread-safe.
class TaskFailureOrder {
 public:
  /// srun told a failure.
  void told(const TaskFailure& failure, Clock::time_point now);
  /// The failure to report, once its time has come; never again after that.
  std::optional<TaskFailure> take(Clock::time_point now);
  /// srun has no more to tell.
  void end() { limit_ = {}; }
  /// When `take` has something to give even if nothing else happens.
  Deadline next() const;

 private:
  std::optional<TaskFailure> first_;
  Clock::time_point limit_;
  bool is_taken_ = false;
};

/// By this line the hvdrun in task 0 tells the one around srun which step it is; not shown.
inline constexpr std::string_view kStepLine = "hvdrun-step ";

}  // namespace hvd
