// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/run_options.h"
#include "launcher/run/job_events.h"
#include "launcher/run/room.h"

namespace hvd {

/// `hvdrun prog`: prepares and runs the ranks. Returns the exit code (or execs and never returns).
/// With `events` that somebody watches it is refused in a task of srun, which becomes the program.
int run_program(const RunOptions& options, JobNodes job_nodes, const JobEvents& events = {});

}  // namespace hvd
