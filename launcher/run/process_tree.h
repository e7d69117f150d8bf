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

/// True when the main thread has ended; others of the process may still be at it.
bool is_zombie(pid_t pid);

/// Waits until the last thread of `pid` is gone. Where the kernel has no pidfd it does not wait.
void wait_for_end(pid_t pid, Deadline deadline);

}  // namespace hvd
