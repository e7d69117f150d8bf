// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_catalog.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/console/words.h"
#include "launcher/site/near_sites.h"
#include "launcher/site/site_detect.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_file.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

bool is_embedded(const SiteEntry& entry) { return !entry.embedded_file.empty(); }

bool is_same(const SiteEntry& left, const SiteEntry& right) {
  return left.origin == right.origin && left.embedded_file == right.embedded_file;
}

/// The site that the last of `chain` extends. Of its own id it is one behind it in the index.
Result<const SiteEntry*> base_of(const std::vector<SiteEntry>& entries,
                                 const std::vector<const SiteEntry*>& chain) {
  const SiteEntry& entry = *chain.back();
  const auto is_base = [&](const SiteEntry& other) {
    return other.id == entry.extends && !is_same(other, entry);
  };
  auto from = entries.begin();
  if (entry.extends == entry.id) {
    from = std::find_if(from, entries.end(),
                        [&](const SiteEntry& other) { return is_same(other, entry); });
    if (from == entries.end()) from = entries.begin();  // a file named on the command line
  }
  auto base = std::find_if(from, entries.end(), [&is_base](const SiteEntry& other) {
    return is_base(other) && other.problem.empty();
  });
  if (base == entries.end()) base = std::find_if(from, entries.end(), is_base);
  if (base == entries.end() && entry.extends != entry.id) {
    return error(Code::kInvalidArgument, "{}: at /extends: no site '{}': the known ones are {}",
                 entry.origin, entry.extends, known_ids(entries));
  }
  const bool returns = base == entries.end() ||
                       std::any_of(chain.begin(), chain.end(),
                                   [&](const SiteEntry* link) { return is_same(*link, *base); });
  if (!returns) return &*base;
  std::string circle;
  for (const SiteEntry* link : chain) circle += link->id + " -> ";
  return error(Code::kInvalidArgument,
               "{}: at /extends: {}{} is a cycle: one of them must stand alone", entry.origin,
               circle, entry.extends);
}

/// Documents from the entry itself to the one that extends no other.
Result<Json> load_chain(const std::vector<SiteEntry>& entries,
                        std::vector<const SiteEntry*>& chain) {
  const SiteEntry& entry = *chain.back();
  if (!entry.problem.empty()) return error(Code::kInvalidArgument, "{}", entry.problem);
  const std::string_view text =
      is_embedded(entry) ? embedded_file(entry.embedded_file) : std::string_view(entry.text);
  HVD_TRY_ASSIGN(Json document, parse_json(text, entry.origin));
  if (!is_embedded(entry)) HVD_TRY(validate_document(document, kSiteSchema, entry.origin));
  if (!document.contains("extends")) return document;
  HVD_TRY_ASSIGN(const SiteEntry* base, base_of(entries, chain));
  chain.push_back(base);
  HVD_TRY_ASSIGN(const Json older, load_chain(entries, chain));
  return extend_document(older, document);
}

const SiteEntry* find_usable(const std::vector<SiteEntry>& entries, std::string_view id) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const SiteEntry& entry) {
    return entry.id == id && entry.problem.empty();
  });
  return found == entries.end() ? nullptr : &*found;
}

/// A file of wrong values counts no more: nobody named it, and the next may claim the machine.
void leave_out(SiteEntry& entry, const std::string& problem) {
  entry.problem = problem;
  entry.detect = SiteDetect();
}

Result<SiteConfig> load_site(const std::vector<SiteEntry>& entries, const SiteEntry& entry) {
  HVD_TRY_ASSIGN(const Json document, load_document(entries, entry));
  return site_of(document, entry.origin);
}

}  // namespace

Result<Json> load_document(const std::vector<SiteEntry>& entries, const SiteEntry& entry) {
  std::vector<const SiteEntry*> chain{&entry};
  HVD_TRY_ASSIGN(Json document, load_chain(entries, chain));
  const bool is_ours = std::all_of(chain.begin(), chain.end(),
                                   [](const SiteEntry* link) { return is_embedded(*link); });
  if (is_ours) return document;
  const std::string origin =
      chain.size() == 1 ? entry.origin : format_text("{} (with what it extends)", entry.origin);
  if (chain.size() > 1) HVD_TRY(validate_document(document, kSiteSchema, origin));
  HVD_TRY(check_site(document, origin));
  return document;
}

Result<std::vector<std::string>> visit_sites(
    const std::vector<SiteEntry>& entries,
    const std::function<void(const SiteEntry&, const Json&)>& take) {
  std::vector<std::string> warnings;
  std::set<std::string_view> taken;
  for (const SiteEntry& entry : entries) {
    if (taken.contains(entry.id)) continue;
    const Result<Json> document = load_document(entries, entry);
    if (document.is_ok()) {
      taken.insert(entry.id);
      take(entry, document.value());
    } else {
      warnings.push_back(left_out_warning(document.status().message()));
    }
  }
  return warnings;
}

Result<std::vector<SiteConfig>> all_sites(const Environment& environment,
                                          std::vector<std::string>& warnings) {
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  std::vector<SiteConfig> sites;
  const auto take = [&sites](const SiteEntry& entry, const Json& document) {
    sites.push_back(site_of(document, entry.origin));
  };
  HVD_TRY_ASSIGN(warnings, visit_sites(entries, take));
  return sites;
}

Result<SiteEntry> choose_entry(const std::vector<SiteEntry>& entries, const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return site_entry(name);
  if (const SiteEntry* entry = find_entry(entries, name)) return *entry;
  const std::string near = joined(near_sites(entries, name), ", ");
  return error(Code::kInvalidArgument,
               "no site '{}': the known ones are {}; for another, type --site FILE.json or add its "
               "folder to HVD_SITE_PATH{}{}{}",
               name, known_ids(entries), near.empty() ? "" : "\nhint: did you mean ", near,
               near.empty() ? "" : "?");
}

Result<SiteConfig> find_site(const std::string& name, const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  HVD_TRY_ASSIGN(const SiteEntry entry, choose_entry(entries, name));
  HVD_TRY_ASSIGN(SiteConfig site, load_site(entries, entry));
  site.found_by = "--site " + name;
  site.warnings = site_warnings(entries);
  return site;
}

Result<SiteConfig> detect_site(const Environment& environment, const std::string& hostname) {
  HVD_TRY_ASSIGN(std::vector<SiteEntry> entries, site_index(environment));
  const HostFacts host = read_host_facts(hostname, environment);
  while (true) {
    HVD_TRY_ASSIGN(const std::optional<SiteClaim> claim, claim_site(entries, environment, host));
    const SiteEntry* entry = claim ? claim->entry : find_usable(entries, "generic");
    HVD_CHECK(entry != nullptr);
    Result<SiteConfig> site = load_site(entries, *entry);
    if (site.is_ok()) {
      site.value().found_by = claim ? claim->evidence : "no site claims this machine";
      site.value().warnings = site_warnings(entries);
      return site;
    }
    if (is_embedded(*entry)) return site;
    leave_out(entries[static_cast<std::size_t>(entry - entries.data())], site.status().message());
  }
}

}  // namespace hvd
