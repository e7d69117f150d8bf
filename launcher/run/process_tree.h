// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "base/deadline.h"

namespace hvd {

/// Kills (SIGKILL) and reaps every process below this one (by parent), and every process that
/// carries `marker` ("NAME=value") in its environment with all below it, until none is left or the
/// deadline passes. The caller is a child subreaper, so that orphans become its children.
void kill_job_processes(const std::string& marker, Deadline deadline);

/// A pidfd of `pid`; -1: the kernel has none, or the process is gone.
int open_process(pid_t pid);

}  // namespace hvd
