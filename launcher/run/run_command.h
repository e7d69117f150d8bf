// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/run_options.h"

namespace hvd {

/// `hvdrun prog`: prepares and runs the ranks. Returns the exit code (or execs and never returns).
int run_program(const RunOptions& options);

}  // namespace hvd
