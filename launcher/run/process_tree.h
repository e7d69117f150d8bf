// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"

namespace hvd {

/// Kills (SIGKILL) and reaps every process below this one, by parent, until none is left or the
/// deadline passes. The caller is a child subreaper, so that orphans become its children.
/// `marks` ("NAME=value"): where there are any, also every process of this user that has all of
/// them in its environment, and those below it: the tasks of a step, which are not our children.
void kill_job_processes(const std::vector<std::string>& marks, Deadline deadline);

/// Kills the processes below this one that have all of `marks` in their environment, and reaps
/// none.
void kill_marked_below(const std::vector<std::string>& marks);

/// True where `environment`, as /proc/PID/environ gives it, has all of `marks`; of none: false.
bool has_marks(std::string_view environment, const std::vector<std::string>& marks);

}  // namespace hvd
