// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/prepared_job.h"

#include "bootstrap/local_host.h"
#include "launcher/job/template.h"
#include "launcher/run/program_path.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

Result<SiteConfig> choose_site(const std::string& name, const Environment& environment) {
  if (!name.empty()) return find_site(name, environment);
  HVD_TRY_ASSIGN(SiteConfig here, detect_site(environment, local_host_name()));
  if (here.id != "generic") return here;
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string known;
  for (const SiteConfig& site : sites) known += (known.empty() ? "" : ", ") + site.id;
  return error(Code::kInvalidArgument, "no site claims this machine: type --site with one of {}",
               known);
}

/// How the job calls this program: submitted here by its path, since the PATH of a login shell can
/// be another. A printed script may be for another machine, where the path says nothing.
std::string own_name(JobAction action) {
  if (action != JobAction::kSubmit) return "hvdrun";
  return path_of_self();
}

}  // namespace

Result<PreparedJob> prepare_job(const JobOptions& options, const Environment& environment) {
  PreparedJob job;
  HVD_TRY_ASSIGN(job.site, choose_site(options.site, environment));
  HVD_TRY_ASSIGN(const TemplateFiles templates, read_templates(options.templates, environment));
  HVD_TRY_ASSIGN(job.plan, plan_job(job.site, options, own_name(options.action)));
  const bool header = options.action == JobAction::kHeader || options.command.empty();
  HVD_TRY_ASSIGN(job.text,
                 header ? render_header(job.plan, templates) : render_script(job.plan, templates));
  return job;
}

}  // namespace hvd
