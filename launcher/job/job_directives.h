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

/// The signal that a job gets before its time limit.
struct JobSignal {
  std::string text;  ///< As sbatch takes it; empty: none.
  std::string name;  ///< "USR2"
  int lead_seconds = 0;
};

/// What of a job was decided before its lines are written.
struct JobDecisions {
  JobSize size;
  std::string qos;      ///< Empty: none.
  std::string account;  ///< Empty: none.
  std::string time;     ///< Empty: none.
  JobSignal signal;
};

/// The signal that is asked for; with --requeue one to the batch shell, which has the trap.
Result<JobSignal> plan_signal(const JobOptions& request);

/// The lines of the header, in the order in which people write them.
std::vector<JobDirective> plan_directives(const SiteConfig& site, const SitePartition& partition,
                                          const JobOptions& request, const JobDecisions& decided);

/// Refuses what a #SBATCH line cannot carry, what sbatch would not understand, and what the site
/// does not want.
Status check_directives(const SiteConfig& site, const std::vector<JobDirective>& lines);

/// The name of the job: typed, or that of its program; empty without one.
std::string job_name(const JobOptions& request);

}  // namespace hvd
