// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "launcher/job/job_size.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// What a script is for; each has a template of that name. A script that is several at once has the
/// first of these; modules, environment and the srun line are the same parts in all.
enum class JobShape { kRequeue, kContainer, kArray, kGpuExclusive, kGpu, kCpu };

JobShape choose_shape(const JobOptions& request, const JobSize& size, bool whole_nodes);

/// "gpu-exclusive"
std::string_view shape_name(JobShape shape);

}  // namespace hvd
