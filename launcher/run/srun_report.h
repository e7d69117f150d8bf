// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvd {

/// A failure that srun tells on standard error.
struct TaskFailure {
  int rank = 0;
  std::string host;
  std::string what;   ///< "exit code 7", "signal 9 (Killed)"
  int exit_code = 1;  ///< The shell's: 128 + signal.
};

/// Reads "srun: error: jz1: task 2: Exited with exit code 7" and "...: tasks 4-7: Killed" (then the
/// first of the tasks); nothing for any other line.
std::optional<TaskFailure> parse_task_failure(std::string_view line);

/// By this line the hvdrun in task 0 tells the one around srun which step it is; not shown.
inline constexpr std::string_view kStepLine = "hvdrun-step ";

}  // namespace hvd
