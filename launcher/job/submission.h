// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "launcher/job/job_plan.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// The environment for sbatch or salloc: what an outer job or step set about itself is left out,
/// since the new job would take it for its own.
Environment submission_environment(const Environment& environment);

/// One `NAME=value` line a variable, by name; values that look like secrets are "(redacted)".
std::string describe_environment(const Environment& environment);

/// SBATCH_* variables that win over lines of the header, a sentence each.
std::vector<std::string> overriding_variables(const JobPlan& plan, const Environment& environment);

/// Where the files of a submission are.
struct SubmissionPlaces {
  std::string folder;   ///< Launch directory, absolute.
  std::string working;  ///< Where the program starts: where submit was typed.
};

/// The sbatch command: the job starts in the working folder, so that relative paths keep their
/// meaning, and its output lies in the launch directory unless the user says where.
std::vector<std::string> sbatch_command(const JobOptions& options, const SubmissionPlaces& places);

}  // namespace hvd
