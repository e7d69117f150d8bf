// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/container.h"
#include "launcher/job/job_directives.h"
#include "launcher/job/shape.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// Everything that a header or script says, decided and checked; the templates only spell it.
struct JobPlan {
  SitePartition partition;
  std::string shell;
  std::vector<std::string> notes;  ///< Comments at the top.
  std::vector<JobDirective> directives;
  std::vector<std::string> modules;
  bool purges_modules = false;           ///< Before it loads those.
  std::vector<SiteVariable> historical;  ///< Variables kept as text.
  std::vector<PlannedVariable> environment;
  std::vector<std::string> undecided;  ///< "NAME (condition)": hvdrun decides on the node.
  JobShape shape = JobShape::kGpu;
  std::string signal;             ///< Name of the one that the requeue shape's trap waits for.
  int grace_seconds = 0;          ///< That the program has after it.
  std::string hvdrun = "hvdrun";  ///< How the script calls this program.
  std::vector<std::string> step;  ///< The srun line. Empty: a header only.
  bool repeats_cores = false;     ///< The srun line says --cpus-per-task again.
  ContainerPlan container;
  std::vector<std::string> step_notes;  ///< Comments above the srun line.
};

/// Decides the job at `site`; `hvdrun` is how its script calls this program. Errors say what does
/// not fit and what to type instead.
Result<JobPlan> plan_job(const SiteConfig& site, const JobOptions& request,
                         const std::string& hvdrun = "hvdrun");

}  // namespace hvd
