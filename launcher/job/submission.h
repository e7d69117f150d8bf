// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/job/job_plan.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// The environment for sbatch or salloc: what an outer job or step set about itself is left out,
/// since the new job would take it for its own.
Environment submission_environment(const Environment& environment);

/// The sentence about a job for a site that this machine is not of; empty: nothing contradicts it.
/// `here`: the site that was detected.
std::string elsewhere_note(const SiteConfig& site, const SiteConfig& here);

/// One `NAME=value` line a variable, by name; values that look like secrets are "(redacted)".
std::string describe_environment(const Environment& environment);

/// A line of the header that a variable of the user's (SBATCH_PARTITION) contradicts: sbatch would
/// take the variable's value.
struct ContradictedLine {
  std::string variable;
  std::string value;  ///< Of the variable.
  JobDirective line;

  /// "--partition=a": on sbatch's command line it wins over the variable.
  std::string flag() const;
};

std::vector<ContradictedLine> contradicted_lines(const JobPlan& plan,
                                                 const Environment& environment);

/// The sentence about it.
std::string describe_contradiction(const ContradictedLine& contradicted);

/// Where the files of a submission are.
struct SubmissionPlaces {
  std::string folder;   ///< Launch directory, absolute.
  std::string working;  ///< Where the program starts: where submit was typed.
};

/// The error of an sbatch that gave no answer: whether there is a job nobody can tell.
Status describe_silence(const std::string& folder, std::chrono::seconds limit);

/// The sbatch command: the job starts in the working folder, so that relative paths keep their
/// meaning, and its output lies in the launch directory unless the user says where. What variables
/// contradict is said again.
std::vector<std::string> sbatch_command(const JobOptions& options, const SubmissionPlaces& places,
                                        const std::vector<ContradictedLine>& contradicted = {});

/// The folder that sbatch expects to be there for the job's output, which it does not make: without
/// it the job ends without a word. "": there is none to make, or its name depends on the job.
std::string folder_of_output(const std::string& output, const std::string& working);

}  // namespace hvd
