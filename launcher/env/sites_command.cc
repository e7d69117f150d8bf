// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bootstrap/local_host.h"
#include "launcher/cluster/read_cluster.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/env/env_command.h"
#include "launcher/env/site_draft.h"
#include "launcher/env/sites_report.h"
#include "launcher/site/job_defaults.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/site_embedded.h"

namespace hvd {
namespace {

Result<std::string> list_sites(const SitesOptions& options, const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  HVD_TRY_ASSIGN(const SiteConfig here, detect_site(environment, local_host_name()));
  SitesReport report;
  report.here = here.id;
  report.evidence = here.found_by;
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
  if (options.json) return site_json(document);
  const std::vector<SiteValue> values = site_values(document);
  return site_text({entry, count_marks(values), false}, values);
}

/// "FILE: as it should be", or all that is wrong with it.
void add_finding(const std::string& file, const Status& status, std::string& text, bool& is_wrong) {
  is_wrong = is_wrong || !status.is_ok();
  text += status.is_ok() ? format_text("{}: as it should be\n", file)
                         : format_text("{}\n", status.message());
}

int check_files(const SitesOptions& options, const Environment& environment) {
  const Result<std::vector<SiteEntry>> entries = site_index(environment);
  std::string text;
  bool is_wrong = false;
  for (const SiteEntry& entry : entries.value()) {
    if (!options.site.empty() || !entry.embedded_file.empty()) continue;
    add_finding(entry.origin, load_document(entries.value(), entry).status(), text, is_wrong);
  }
  if (!options.site.empty()) {
    const Result<SiteEntry> entry = choose_entry(entries.value(), options.site);
    const Status status =
        entry.is_ok() ? load_document(entries.value(), entry.value()).status() : entry.status();
    add_finding(options.site, status, text, is_wrong);
  }
  for (const std::string& path : defaults_files(environment)) {
    std::error_code failure;
    if (!options.site.empty() || !std::filesystem::exists(path, failure)) continue;
    add_finding(path, check_defaults(path, entries.value()), text, is_wrong);
  }
  if (text.empty()) text = "there are no files of sites or defaults but those in hvdrun\n";
  const int code = print_answer(text);
  return is_wrong ? kExitUsage : code;
}

/// "2026-11-25"
std::string date_of_today() {
  const std::time_t now = std::time(nullptr);
  std::tm today{};
  ::localtime_r(&now, &today);
  return format_text("{:04}-{:02}-{:02}", today.tm_year + 1900, today.tm_mon + 1, today.tm_mday);
}

Result<std::string> draft_here(const SitesOptions& options, const Environment& environment) {
  HVD_TRY_ASSIGN(LiveAnswer answer,
                 read_live_cluster({.nodes = true}, environment, Deadline::after(kLongLook)));
  for (const std::string& note : answer.notes) print_message(note);
  const DraftFacts facts{std::move(answer.cluster), options.draft_id, date_of_today()};
  HVD_TRY_ASSIGN(const std::string text, draft_site(facts));
  print_message(
      "a draft: read it, add what jobs need (account, modules, env), and give each value its "
      "source ('hvdrun sites --fields' says what a file may hold)");
  return text;
}

/// A failure to ask is not a mistake in what was typed.
int run_draft(const SitesOptions& options, const Environment& environment) {
  const Result<std::string> text = draft_here(options, environment);
  if (text.is_ok()) return print_answer(text.value());
  print_message(text.status().message());
  return text.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace

int run_sites(const SitesOptions& options) {
  const Environment environment = Environment::of_process();
  if (options.is_draft) return run_draft(options, environment);
  if (options.fields) return print_answer(embedded_file("site-schema.md"));
  if (options.check) return check_files(options, environment);
  const Result<std::string> text =
      options.site.empty() ? list_sites(options, environment) : show_site(options, environment);
  if (!text.is_ok()) {
    print_message(text.status().message());
    return kExitUsage;
  }
  return print_answer(text.value());
}

}  // namespace hvd
