// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/job_options.h"

namespace hvd {

/// `hvdrun header`, `script` and `submit`. Returns the exit code.
int run_job(const JobOptions& options);

}  // namespace hvd
