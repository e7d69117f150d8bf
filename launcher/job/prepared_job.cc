// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/prepared_job.h"

#include "bootstrap/local_host.h"
#include "launcher/console/message.h"
#include "launcher/console/words.h"
#include "launcher/job/template.h"
#include "launcher/run/program_path.h"
#include "launcher/site/job_defaults.h"
#include "launcher/site/secret.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

Result<SiteConfig> choose_site(const std::string& name, const Environment& environment) {
  HVD_TRY_ASSIGN(SiteConfig site, name.empty() ? detect_site(environment, local_host_name())
                                               : find_site(name, environment));
  print_messages(site.warnings);
  if (!name.empty() || site.id != "generic") return site;
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  return error(Code::kInvalidArgument, "no site claims this machine: type --site with one of {}",
               known_ids(entries));
}

/// How the job calls this program: submitted here by its path, since the PATH of a login shell can
/// be another. A printed script may be for another machine, where the path says nothing.
std::string own_name(JobAction action) {
  if (action != JobAction::kSubmit) return "hvdrun";
  return path_of_self();
}

}  // namespace

Result<PreparedJob> prepare_job(const JobOptions& typed, const Environment& environment) {
  PreparedJob job;
  HVD_TRY_ASSIGN(job.site, choose_site(typed.site, environment));
  HVD_TRY_ASSIGN(const DefaultedOptions defaulted, with_defaults(typed, job.site, environment));
  print_messages(defaulted.warnings);
  const JobOptions& options = defaulted.options;
  HVD_TRY_ASSIGN(const TemplateFiles templates, read_templates(options.templates, environment));
  Result<JobPlan> plan = plan_job(job.site, options, own_name(options.action));
  const bool is_of_defaults = !plan.is_ok() && !defaulted.origins.empty() &&
                              plan_job(job.site, typed, own_name(options.action)).is_ok();
  if (is_of_defaults) {
    return error(plan.status().code(), "{}\nhint: {}", plan.status().message(),
                 joined(defaulted.origins, "; "));
  }
  HVD_TRY_ASSIGN(job.plan, std::move(plan));
  for (const std::string& origin : defaulted.origins) job.plan.notes.push_back(origin + ".");
  // What submit only shows is read by people; a script that is asked for must run.
  if (options.dry_run) job.plan.step = shown_arguments(std::move(job.plan.step));
  const bool header = options.action == JobAction::kHeader || options.command.empty();
  HVD_TRY_ASSIGN(job.text,
                 header ? render_header(job.plan, templates) : render_script(job.plan, templates));
  return job;
}

}  // namespace hvd
