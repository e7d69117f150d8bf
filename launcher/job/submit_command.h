// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/environment.h"
#include "launcher/job/prepared_job.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// `hvdrun submit`: writes the launch directory, runs sbatch, prints the job id and, where asked,
/// follows the job. Returns the exit code: the job's when followed.
int submit_job(const PreparedJob& job, const JobOptions& options, const Environment& environment);

/// `hvdrun submit --interactive`: becomes `words`, a salloc command. Returns only on failure.
int become_salloc(const std::vector<std::string>& words, const Environment& environment);

}  // namespace hvd
