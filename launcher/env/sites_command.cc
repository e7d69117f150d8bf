// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "bootstrap/local_host.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/env/env_command.h"
#include "launcher/env/sites_report.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/site_detect.h"

namespace hvd {
namespace {

Result<std::string> list_sites(const SitesOptions& options, const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  HVD_TRY_ASSIGN(const std::optional<SiteClaim> claim,
                 claim_site(entries, environment, read_host_facts(local_host_name())));
  SitesReport report;
  report.here = claim ? claim->entry->id : "generic";
  report.evidence = claim ? claim->evidence : "no site claims this machine";
  const auto take = [&report](const SiteEntry& entry, const Json& document) {
    report.sites.push_back({entry, count_marks(site_values(document)), entry.id == report.here});
  };
  HVD_TRY_ASSIGN(const std::vector<std::string> warnings, visit_sites(entries, take));
  print_messages(warnings);
  return options.json ? sites_json(report) : sites_text(report);
}

Result<std::string> show_site(const SitesOptions& options, const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  HVD_TRY_ASSIGN(const SiteEntry entry, choose_entry(entries, options.site));
  HVD_TRY_ASSIGN(const Json document, load_document(entries, entry));
  print_messages(site_warnings(entries));
  const std::vector<SiteValue> values = site_values(document);
  const SiteLine line{entry, count_marks(values), false};
  return options.json ? site_json(line, values) : site_text(line, values);
}

}  // namespace

int run_sites(const SitesOptions& options) {
  const Environment environment = Environment::of_process();
  const Result<std::string> text =
      options.site.empty() ? list_sites(options, environment) : show_site(options, environment);
  if (!text.is_ok()) {
    print_message(text.status().message());
    return kExitUsage;
  }
  return print_answer(text.value());
}

}  // namespace hvd
