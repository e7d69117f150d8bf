// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace hvd {

/// The state in the text of /proc/PID/stat: R, S, D, T (stopped by a signal), t (by a debugger),
/// Z, ...; nothing where it has none. Pure.
std::optional<char> state_in_stat(std::string_view stat);

/// That of the process with this number; nothing where there is none, or it may not be seen.
std::optional<char> state_of_pid(long pid);

/// That of the process of a pidfd; nothing where it has ended, or this process may not see it.
std::optional<char> state_of_process(int pid_fd);

/// "stopped (state T: by a signal or a suspended job)"; empty for states in which it runs.
std::string_view describe_stop(char state);

}  // namespace hvd
