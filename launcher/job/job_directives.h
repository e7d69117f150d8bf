// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/job_size.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"

namespace hvd {

/// One `#SBATCH --option=value` line.
struct JobDirective {
  std::string option;
  std::string value;  ///< Empty: a flag.
};

/// What of a job was decided before its lines are written.
struct JobDecisions {
  JobSize size;
  std::string account;  ///< Empty: none.
  std::string time;     ///< Empty: none.
};

/// Lead of the signal before the time limit that a job with --requeue asks for, in seconds.
inline constexpr int kRequeueLead = 120;

/// The lines of the header, in the order in which people write them.
std::vector<JobDirective> plan_directives(const SiteConfig& site, const SitePartition& partition,
                                          const JobOptions& request, const JobDecisions& decided);

/// Refuses what a #SBATCH line cannot carry, what sbatch would not understand, and what the site
/// does not want.
Status check_directives(const SiteConfig& site, const std::vector<JobDirective>& lines);

/// The name of the job: typed, or that of its program; empty without one.
std::string job_name(const JobOptions& request);

}  // namespace hvd
