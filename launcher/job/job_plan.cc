// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_plan.h"

#include <algorithm>

#include "launcher/job/job_limits.h"
#include "launcher/job/job_size.h"

namespace hvd {
namespace {

void append_unless_there(std::vector<std::string>& words, const std::vector<std::string>& more) {
  for (const std::string& word : more) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
}

/// In the site's order: "arch/h100" must come before what depends on it; the user's come last.
std::vector<std::string> plan_modules(const SiteConfig& site, const SitePartition& partition,
                                      const JobOptions& request) {
  std::vector<std::string> modules = partition.modules;
  append_unless_there(modules, site.modules);
  append_unless_there(modules, request.modules);
  return modules;
}

std::vector<std::string> plan_notes(const SiteConfig& site, const JobOptions& request,
                                    const JobSize& size, const std::vector<std::string>& modules) {
  std::vector<std::string> notes;
  if (!site.retired.empty()) notes.push_back("Retired: " + site.retired + ".");
  if (!size.note.empty()) notes.push_back(size.note);
  if (request.action == JobAction::kHeader && !modules.empty()) {
    std::string names;
    for (const std::string& module : modules) names += " " + module;
    notes.push_back("The script below must first: module load" + names);
  }
  return notes;
}

/// srun of Slurm 22.05 to 23.02 does not take --cpus-per-task over from sbatch.
std::vector<std::string> plan_srun(const SiteConfig& site, const JobSize& size) {
  std::vector<std::string> flags;
  if (size.cores_per_task > 0) {
    flags.push_back(format_text("--cpus-per-task={}", size.cores_per_task));
  }
  flags.insert(flags.end(), site.srun_flags.begin(), site.srun_flags.end());
  return flags;
}

}  // namespace

Result<JobPlan> plan_job(const SiteConfig& site, const JobOptions& request) {
  HVD_TRY_ASSIGN(const SitePartition partition, choose_partition(site, request));
  JobDecisions decided;
  HVD_TRY_ASSIGN(decided.size, plan_size(site, partition, request));
  HVD_TRY_ASSIGN(decided.time, plan_time(site, partition, request, decided.size));
  HVD_TRY_ASSIGN(decided.account, plan_account(site, partition, request.account));
  JobPlan plan;
  plan.shell = site.shell;
  plan.directives = plan_directives(site, partition, request, decided);
  HVD_TRY(check_directives(site, plan.directives));
  plan.modules = plan_modules(site, partition, request);
  plan.notes = plan_notes(site, request, decided.size, plan.modules);
  for (const SiteVariable& variable : site.env) {
    if (variable.when == "historical") plan.historical.push_back(variable);
  }
  plan.environment = site_environment(site, {decided.size.nodes, decided.size.gpus_per_node});
  plan.srun_flags = plan_srun(site, decided.size);
  plan.command = request.command;
  return plan;
}

}  // namespace hvd
