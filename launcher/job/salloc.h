// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/job_plan.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// The words of the salloc command that asks for what the header asks for; with a program it runs
/// hvdrun with it, else a shell. What only a batch job has is refused.
Result<std::vector<std::string>> plan_salloc(const JobPlan& plan, const JobOptions& request);

}  // namespace hvd
