// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/environment.h"

namespace hvd {

/// A program that cannot be started: what to print and the exit code (127 or 126).
struct ProgramProblem {
  int exit_code = 0;
  std::string message;
};

/// The path that execvp would take for `program` with this PATH, or why there is none.
std::variant<std::string, ProgramProblem> find_program(const std::string& program,
                                                       const Environment& environment);

/// "srun" of "/usr/bin/srun".
std::string_view program_name(std::string_view path);

/// The path of this hvdrun; "hvdrun" where /proc does not say it.
std::string path_of_self();

}  // namespace hvd
