// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/run_options.h"
#include "launcher/run/room.h"

namespace hvd {

/// `hvdrun prog`: prepares and runs the ranks. Returns the exit code (or execs and never returns).
int run_program(const RunOptions& options, JobNodes job_nodes);

}  // namespace hvd
