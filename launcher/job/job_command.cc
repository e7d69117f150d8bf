// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_command.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "launcher/job/job_plan.h"
#include "launcher/job/template.h"
#include "launcher/run/exit_code.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

std::string_view name_of(JobAction action) {
  if (action == JobAction::kScript) return "script";
  return action == JobAction::kSubmit ? "submit" : "header";
}

Result<std::string> list_sites(const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string text;
  for (const SiteConfig& site : sites) {
    text += format_text("{:<12} {}{} [{}]\n", site.id, site.name,
                        site.retired.empty() ? "" : " (retired)", site.origin);
    for (const SitePartition& partition : site.partitions) {
      text +=
          format_text("  {:<10} {} {} per node, {} cores per task ({}, {}{}{})\n", partition.name,
                      partition.gpus_per_node, partition.gpu_model, partition.cores_per_task,
                      partition.provenance.source, partition.provenance.date,
                      partition.provenance.mark.empty() ? "" : ", ", partition.provenance.mark);
    }
  }
  return text;
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Result<SiteConfig> choose_site(const std::string& name, const Environment& environment) {
  if (!name.empty()) return find_site(name, environment);
  HVD_TRY_ASSIGN(SiteConfig here, detect_site(environment, host_name()));
  if (here.id != "generic") return here;
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string known;
  for (const SiteConfig& site : sites) known += (known.empty() ? "" : ", ") + site.id;
  return error(Code::kInvalidArgument, "no site claims this machine: type --site with one of {}",
               known);
}

Result<std::string> job_text(const JobOptions& options) {
  const Environment environment = Environment::of_process();
  if (options.list) return list_sites(environment);
  HVD_TRY_ASSIGN(const SiteConfig site, choose_site(options.site, environment));
  HVD_TRY_ASSIGN(const JobPlan plan, plan_job(site, options));
  return options.action == JobAction::kHeader ? render_header(plan) : render_script(plan);
}

}  // namespace

int run_job(const JobOptions& options) {
  const Result<std::string> text = job_text(options);
  if (!text.is_ok()) {
    std::fprintf(stderr, "hvdrun %s: %s\n", std::string(name_of(options.action)).c_str(),
                 text.status().message().c_str());
    return kExitUsage;
  }
  std::fputs(text.value().c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

}  // namespace hvd
