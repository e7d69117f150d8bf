// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_catalog.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "launcher/site/pattern.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_file.h"

namespace hvd {
namespace {

constexpr std::string_view kSitePath = "HVD_SITE_PATH";

Result<SiteConfig> read_site(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // A folder opens as a file does; then a bare stream iterator throws, and this operator does not.
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.is_open() || text.fail()) {
    return error(Code::kInvalidArgument,
                 "site file '{}' cannot be read, or is empty: check path and rights", path);
  }
  return parse_site(text.str(), path);
}

/// The site files of one folder, by name.
Result<std::vector<std::string>> files_of(const std::string& folder) {
  std::error_code failure;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path().string());
  }
  if (failure) {
    return error(Code::kInvalidArgument, "{} names '{}', which cannot be listed: {}", kSitePath,
                 folder, failure.message());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_named(const SiteConfig& site, std::string_view name) {
  return site.id == name ||
         std::find(site.aliases.begin(), site.aliases.end(), name) != site.aliases.end();
}

void add_unless_known(std::vector<SiteConfig>& sites, SiteConfig site) {
  for (const SiteConfig& known : sites) {
    if (known.id == site.id) return;
  }
  sites.push_back(std::move(site));
}

bool claims(const std::vector<std::string>& names, const std::optional<std::string>& name) {
  return name && std::find(names.begin(), names.end(), *name) != names.end();
}

}  // namespace

std::string_view embedded_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name == name) return file.text;
  }
  check_failed("embedded file exists", std::string(name).c_str(), 0);
}

Result<std::vector<SiteConfig>> all_sites(const Environment& environment) {
  std::vector<SiteConfig> sites;
  for (const std::string& folder : split(environment.get(kSitePath).value_or(""), ':')) {
    HVD_TRY_ASSIGN(const std::vector<std::string> paths, files_of(folder));
    for (const std::string& path : paths) {
      HVD_TRY_ASSIGN(SiteConfig site, read_site(path));
      add_unless_known(sites, std::move(site));
    }
  }
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.name.ends_with(".json") || file.name.starts_with("schema/")) continue;
    HVD_TRY_ASSIGN(SiteConfig site, parse_site(file.text, std::string(file.name)));
    site.origin = "embedded";
    add_unless_known(sites, std::move(site));
  }
  return sites;
}

Result<SiteConfig> find_site(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return read_site(name);
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string known;
  for (const SiteConfig& site : sites) {
    if (is_named(site, name)) return site;
    known += (known.empty() ? "" : ", ") + site.id;
  }
  return error(Code::kInvalidArgument,
               "no site '{}': the known ones are {}; for another, type --site FILE.json or add its "
               "folder to {}",
               name, known, kSitePath);
}

Result<SiteConfig> detect_site(const Environment& environment, std::string_view hostname) {
  HVD_TRY_ASSIGN(std::vector<SiteConfig> sites, all_sites(environment));
  for (SiteConfig& site : sites) {
    if (claims(site.detect.cluster_names, environment.get("SLURM_CLUSTER_NAME"))) return site;
    if (claims(site.detect.system_names, environment.get("SYSTEMNAME"))) return site;
    if (site.detect.hostname.empty()) continue;
    HVD_TRY_ASSIGN(const bool matches, pattern_matches(site.detect.hostname, hostname));
    if (matches) return site;
  }
  return find_site("generic", environment);
}

}  // namespace hvd
