// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// Shows a job until it ends: on standard error its state, on change (place and reason while it
/// waits), on standard output what it writes, entries of an array by number. Gives the job's exit
/// code, of an array the highest. SIGINT and SIGTERM end the following, never the job.
Result<int> follow_job(const std::string& job, const Environment& environment);

}  // namespace hvd
