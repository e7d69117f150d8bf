// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd {

/// Every living process below `root` (by parent), and every process that carries `marker`
/// ("NAME=value") in its environment with all below it; `root` itself and this process excepted.
std::vector<pid_t> job_processes(pid_t root, const std::string& marker);

/// Kills (SIGKILL) all job_processes of the calling process and reaps them, until none is left or
/// the deadline passes. The caller is a child subreaper, so that orphans become its children.
void kill_job_processes(const std::string& marker, Deadline deadline);

}  // namespace hvd
