// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// hvdrun's own exit codes; else it returns the first failing rank's.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

/// The shell's exit code of a process that a signal ended.
constexpr int exit_code_of_signal(int signal) { return 128 + signal; }
/// The shell's exit code for a status as waitpid gives it.
int exit_code_of(int wait_status);

/// "signal 9 (Killed)"
std::string describe_signal(int signal);
/// "exit code 3", "signal 9 (Killed)" or "signal 6 (Aborted), core dumped", for a status as waitpid
/// gives it.
std::string describe_end(int wait_status);

}  // namespace hvd
