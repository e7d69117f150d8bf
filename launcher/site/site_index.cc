// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_index.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/read_setting.h"
#include "base/text_file.h"
#include "launcher/console/words.h"
#include "launcher/site/config_folder.h"
#include "launcher/site/pattern.h"
#include "launcher/site/site_document.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

constexpr std::string_view kSitePath = "HVD_SITE_PATH";

/// A field of a document that nothing has checked yet.
std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> words_at(const Json& object, const char* key) {
  std::vector<std::string> words;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return words;
  for (const Json& word : *found) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

SiteDetect detect_at(const Json& document) {
  SiteDetect detect;
  const auto json = document.find("detect");
  if (json == document.end() || !json->is_object()) return detect;
  if (const auto variables = json->find("variables");
      variables != json->end() && variables->is_object()) {
    for (const auto& [name, value] : variables->items()) {
      if (value.is_string()) detect.variables.push_back({name, value.get<std::string>()});
    }
  }
  detect.cluster_names = words_at(*json, "cluster_names");
  detect.system_names = words_at(*json, "system_names");
  detect.hostname = text_at(*json, "hostname");
  detect.domains = words_at(*json, "domains");
  return detect;
}

/// The site files of one folder, by name.
Result<std::vector<std::string>> files_of(const std::string& folder) {
  std::error_code failure;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() != ".json") continue;
    // A shell makes the file of `hvdrun sites NAME --json > FILE` before hvdrun looks.
    std::error_code unknown;
    const bool is_begun = entry->is_regular_file(unknown) && entry->file_size(unknown) == 0;
    if (!is_begun) paths.push_back(entry->path().string());
  }
  if (failure) {
    return error(Code::kInvalidArgument, "'{}' cannot be listed for its site files: {}", folder,
                 failure.message());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Whoever names the site learns why it cannot be used.
SiteEntry broken_entry(const std::string& path, const std::string& problem) {
  SiteEntry entry;
  entry.id = std::filesystem::path(path).stem().string();
  entry.origin = path;
  entry.problem = problem;
  return entry;
}

/// The sites of one folder; a folder that cannot be read is itself an entry with a problem.
void add_sites(const std::string& folder, std::vector<SiteEntry>& entries) {
  const Result<std::vector<std::string>> paths = files_of(folder);
  if (!paths.is_ok()) {
    SiteEntry entry;
    entry.origin = folder;
    entry.problem = paths.status().message();
    entries.push_back(std::move(entry));
    return;
  }
  for (const std::string& path : paths.value()) {
    Result<SiteEntry> entry = site_entry(path);
    entries.push_back(entry.is_ok() ? std::move(entry).value()
                                    : broken_entry(path, entry.status().message()));
  }
}

void add_detect(const EmbeddedDetect& row, SiteDetect& detect) {
  const std::string value(row.value);
  if (row.field == "variables") detect.variables.push_back({std::string(row.variable), value});
  if (row.field == "cluster_names") detect.cluster_names.push_back(value);
  if (row.field == "system_names") detect.system_names.push_back(value);
  if (row.field == "hostname") detect.hostname = value;
  if (row.field == "domains") detect.domains.push_back(value);
}

void add_embedded(std::vector<SiteEntry>& entries) {
  for (const EmbeddedSite& site : embedded_sites()) {
    SiteEntry entry;
    entry.id = site.id;
    entry.name = site.name;
    entry.aliases = split(site.aliases, ' ');
    entry.retired = site.retired;
    entry.extends = site.extends;
    entry.origin = "embedded";
    entry.embedded_file = site.file;
    for (const EmbeddedDetect& row : embedded_detects()) {
      if (row.site == site.id) add_detect(row, entry.detect);
    }
    entries.push_back(std::move(entry));
  }
}

/// A user's file that extends the site of its own id is recognised as that one is.
void inherit_detection(std::vector<SiteEntry>& entries) {
  for (std::size_t i = entries.size(); i-- > 0;) {
    SiteEntry& entry = entries[i];
    if (entry.extends != entry.id) continue;
    const auto base = std::find_if(
        entries.begin() + static_cast<std::ptrdiff_t>(i) + 1, entries.end(),
        [&](const SiteEntry& other) { return other.id == entry.id && other.problem.empty(); });
    if (base == entries.end()) continue;
    if (entry.detect.is_empty()) entry.detect = base->detect;
    if (entry.aliases.empty()) entry.aliases = base->aliases;
    if (entry.name.empty()) entry.name = base->name;
    if (entry.retired.empty()) entry.retired = base->retired;
  }
}

}  // namespace

std::string_view embedded_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name == name) return file.text;
  }
  check_failed("embedded file exists", std::string(name).c_str(), 0);
}

Result<SiteEntry> site_entry(const std::string& path) {
  std::optional<std::string> text = read_text_file(path);
  if (!text) {
    return error(
        Code::kInvalidArgument,
        "site file '{}' cannot be read, is empty, or is a pipe that nothing is written to: "
        "check path and rights",
        path);
  }
  SiteEntry entry;
  entry.origin = path;
  entry.text = *std::move(text);
  HVD_TRY_ASSIGN(const Json document, parse_json(entry.text, path));
  if (document.is_object()) entry.id = text_at(document, "id");
  if (entry.id.empty()) {
    HVD_TRY(validate_document(document, kSiteSchema, path));
    return error(Code::kInvalidArgument, "{}: at /id: a site needs an id", path);
  }
  entry.name = text_at(document, "name");
  entry.aliases = words_at(document, "aliases");
  entry.retired = text_at(document, "retired");
  entry.extends = text_at(document, "extends");
  entry.detect = detect_at(document);
  if (!entry.detect.hostname.empty()) {
    const Result<bool> matches = pattern_matches(entry.detect.hostname, "");
    if (!matches.is_ok()) return matches.status().with_context(path + ": at /detect/hostname");
  }
  return entry;
}

Result<std::vector<SiteEntry>> site_index(const Environment& environment) {
  std::vector<SiteEntry> entries;
  for (const std::string& folder : split(read_text(environment, kSitePath), ':')) {
    if (!folder.empty()) add_sites(folder, entries);
  }
  for (const std::string& folder : config_folders(environment)) {
    std::error_code failure;
    if (std::filesystem::is_directory(folder + "/sites", failure)) {
      add_sites(folder + "/sites", entries);
    }
  }
  add_embedded(entries);
  inherit_detection(entries);
  return entries;
}

const SiteEntry* find_entry(const std::vector<SiteEntry>& entries, std::string_view name) {
  for (const SiteEntry& entry : entries) {
    if (entry.id == name) return &entry;
  }
  for (const SiteEntry& entry : entries) {
    if (std::find(entry.aliases.begin(), entry.aliases.end(), name) != entry.aliases.end()) {
      return &entry;
    }
  }
  return nullptr;
}

std::string left_out_warning(const std::string& problem) {
  return format_text(
      "warning: a site file is left out: {}\nhint: 'hvdrun sites --check' looks at all, 'hvdrun "
      "sites --fields' says what a file may hold",
      problem);
}

std::vector<std::string> site_warnings(const std::vector<SiteEntry>& entries) {
  std::vector<std::string> warnings;
  for (const SiteEntry& entry : entries) {
    if (!entry.problem.empty()) warnings.push_back(left_out_warning(entry.problem));
  }
  return warnings;
}

std::string known_ids(const std::vector<SiteEntry>& entries) {
  std::vector<std::string> ids;
  ids.reserve(entries.size());
  for (const SiteEntry& entry : entries) {
    if (entry.problem.empty()) ids.push_back(entry.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : ", ") + id;
  return text;
}

}  // namespace hvd
