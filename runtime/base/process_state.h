// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hvd {

/// What /proc/PID/stat says.
struct ProcessStat {
  char state = 0;  ///< R, S, D, T (stopped by a signal), t (by a debugger), Z, ...
  long parent = 0;
  std::uint64_t start = 0;  ///< In clock ticks since boot: tells a number that is used again.

  /// True while its parent has not taken note of its end.
  bool is_zombie() const { return state == 'Z' || state == 'X'; }
};

/// The text of the file; nothing where it is cut short. Pure.
std::optional<ProcessStat> parse_stat(std::string_view text);

/// That of the process with this number; nothing where there is none, or it may not be seen.
std::optional<ProcessStat> stat_of(long pid);

/// The state of the process of a pidfd; nothing where it has ended, or this process may not see it.
std::optional<char> state_of_process(int pid_fd);

/// "stopped (state T: by a signal or a suspended job)"; empty for states in which it runs.
std::string_view describe_stop(char state);

}  // namespace hvd
