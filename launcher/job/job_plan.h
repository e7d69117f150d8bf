// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/job_directives.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// Everything that a header or script says, decided and checked; the templates only spell it.
struct JobPlan {
  std::string shell;
  std::vector<std::string> notes;  ///< Comments at the top.
  std::vector<JobDirective> directives;
  std::vector<std::string> modules;
  std::vector<SiteVariable> historical;  ///< Variables kept as text.
  std::vector<PlannedVariable> environment;
  std::vector<std::string> srun_flags;
  std::vector<std::string> command;  ///< Empty: a header only.
};

/// Decides the job at `site`. Errors say what does not fit and what to type instead.
Result<JobPlan> plan_job(const SiteConfig& site, const JobOptions& request);

}  // namespace hvd
