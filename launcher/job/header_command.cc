// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/header_command.h"

#include <cstdio>

#include "launcher/job/header.h"
#include "launcher/job/template.h"
#include "launcher/run/exit_code.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

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

Result<SiteConfig> choose_site(const std::string& name, const Environment& environment) {
  if (!name.empty()) return find_site(name, environment);
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string known;
  for (const SiteConfig& site : sites) known += (known.empty() ? "" : ", ") + site.id;
  return error(Code::kInvalidArgument, "which site? Type --site with one of {}", known);
}

Result<std::string> header_text(const HeaderOptions& options) {
  const Environment environment = Environment::of_process();
  if (options.list) return list_sites(environment);
  HVD_TRY_ASSIGN(const SiteConfig site, choose_site(options.site, environment));
  HVD_TRY_ASSIGN(const HeaderModel model, plan_header(site, options));
  return render_header(model);
}

}  // namespace

int run_header(const HeaderOptions& options) {
  const Result<std::string> text = header_text(options);
  if (!text.is_ok()) {
    std::fprintf(stderr, "hvdrun header: %s\n", text.status().message().c_str());
    return kExitUsage;
  }
  std::fputs(text.value().c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

}  // namespace hvd
