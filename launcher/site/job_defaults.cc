// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/job_defaults.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text_file.h"
#include "launcher/console/words.h"
#include "launcher/options/sbatch_setting.h"
#include "launcher/site/config_folder.h"
#include "launcher/site/near_sites.h"
#include "launcher/site/site_document.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

constexpr std::string_view kDefaultsSchema = "schema/defaults.schema.json";

struct DefaultText {
  const char* key;
  std::string JobOptions::*field;
  bool goes_with_partition = false;
};

constexpr DefaultText kDefaultTexts[] = {
    {"account", &JobOptions::account}, {"partition", &JobOptions::partition, true},
    {"qos", &JobOptions::qos, true},   {"constraint", &JobOptions::constraint, true},
    {"time", &JobOptions::time},       {"mem", &JobOptions::mem},
    {"output", &JobOptions::output},   {"container", &JobOptions::container},
};

/// Options of `settings`, as typed after --sbatch; refuses what sbatch does not have.
Result<std::vector<SbatchSetting>> settings_of(const Json& settings) {
  std::vector<SbatchSetting> read;
  for (const auto& [name, value] : settings.items()) {
    const std::string text = value.get<std::string>();
    HVD_TRY_ASSIGN(SbatchSetting setting,
                   parse_sbatch_setting(text.empty() ? name : format_text("{}={}", name, text)));
    read.push_back(std::move(setting));
  }
  return read;
}

/// What is wrong with the "sbatch" of a part of the document, at `pointer`.
void check_settings(const Json& part, const std::string& pointer,
                    std::vector<std::string>& errors) {
  if (!part.contains("sbatch")) return;
  for (const auto& [name, value] : part.at("sbatch").items()) {
    const Json one = Json::object({{name, value}});
    const Result<std::vector<SbatchSetting>> read = settings_of(one);
    JobOptions scratch;
    const Status status =
        read.is_ok() ? take_sbatch_settings(read.value(), scratch) : read.status();
    if (status.is_ok() && !scratch.sbatch.empty()) continue;
    errors.push_back(format_text(
        "at {}/sbatch/{}: {}", pointer, name,
        status.is_ok() ? "hvdrun has a field or an option of its own for it" : status.message()));
  }
}

Result<Json> read_defaults(const std::string& path) {
  const std::optional<std::string> text = read_text_file(path);
  if (!text) {
    return error(Code::kInvalidArgument, "'{}' cannot be read, or is empty: check its rights",
                 path);
  }
  HVD_TRY_ASSIGN(Json document, parse_json(*text, path));
  std::vector<std::string> errors = schema_errors(document, kDefaultsSchema);
  if (errors.empty()) {
    check_settings(document, "", errors);
    const Json sites = document.value("sites", Json::object());
    for (const auto& [id, part] : sites.items()) {
      check_settings(part, "/sites/" + id, errors);
    }
  }
  HVD_TRY(document_status(std::move(errors), path));
  return document;
}

/// Sentences on the sites of the document that are none: what stands there is never taken. An alias
/// is not a name of a site here; `in_use` is one, wherever its file lies.
std::vector<std::string> unknown_sites(const Json& document, const std::vector<SiteEntry>& entries,
                                       const std::string& in_use) {
  std::vector<std::string> sentences;
  const Json sites = document.value("sites", Json::object());
  for (const auto& [id, part] : sites.items()) {
    const bool is_known =
        std::any_of(entries.begin(), entries.end(),
                    [&id = id](const SiteEntry& entry) { return entry.id == id; });
    if (is_known || id == in_use) continue;
    const std::string near = joined(near_sites(entries, id), ", ");
    sentences.push_back(format_text(
        "at /sites/{}: no site '{}': {}", id, id,
        near.empty() ? "'hvdrun sites' lists the known ones" : "did you mean " + near + "?"));
  }
  return sentences;
}

bool site_has(const SiteConfig& site, const std::string& partition) {
  return site.partitions.empty() ||
         std::any_of(site.partitions.begin(), site.partitions.end(), [&](const auto& one) {
           return one.name == partition ||
                  std::find(one.aliases.begin(), one.aliases.end(), partition) != one.aliases.end();
         });
}

/// Fills `options` from one part of a file, and names the fields that it gave.
class DefaultFiller {
 public:
  DefaultFiller(const SiteConfig& site, JobOptions& options)
      : site_(site), options_(options), typed_partition_(!options.partition.empty()) {}

  Status fill(const Json& part, bool is_for_site) {
    const std::string partition = part.value("partition", "");
    const bool fits = !typed_partition_ && (options_.partition.empty() || partition.empty() ||
                                            options_.partition == partition);
    const bool is_known = is_for_site || partition.empty() || site_has(site_, partition);
    for (const DefaultText& text : kDefaultTexts) {
      if (!part.contains(text.key) || !(options_.*text.field).empty()) continue;
      if (text.goes_with_partition && !(fits && is_known)) continue;
      options_.*text.field = part.at(text.key).get<std::string>();
      given_.push_back(text.key);
    }
    if (part.contains("modules") && options_.modules.empty()) {
      options_.modules = part.at("modules").get<std::vector<std::string>>();
      if (!options_.modules.empty()) given_.push_back("modules");
    }
    return fill_settings(part.value("sbatch", Json::object()));
  }
  std::vector<std::string> take_given() { return std::exchange(given_, {}); }

 private:
  Status fill_settings(const Json& settings) {
    HVD_TRY_ASSIGN(const std::vector<SbatchSetting> read, settings_of(settings));
    for (const SbatchSetting& setting : read) {
      const bool is_there =
          std::any_of(options_.sbatch.begin(), options_.sbatch.end(),
                      [&setting](const auto& other) { return other.name == setting.name; });
      if (is_there) continue;
      options_.sbatch.push_back(setting);
      given_.push_back(setting.name);
    }
    return Status::ok();
  }

  const SiteConfig& site_;
  JobOptions& options_;
  const bool typed_partition_;
  std::vector<std::string> given_;
};

}  // namespace

std::vector<std::string> defaults_files(const Environment& environment) {
  std::vector<std::string> paths;
  for (const std::string& folder : config_folders(environment)) {
    paths.push_back(folder + "/defaults.json");
  }
  return paths;
}

Status check_defaults(const std::string& path, const std::vector<SiteEntry>& entries) {
  HVD_TRY_ASSIGN(const Json document, read_defaults(path));
  return document_status(unknown_sites(document, entries, ""), path);
}

Result<DefaultedOptions> with_defaults(const JobOptions& typed, const SiteConfig& site,
                                       const Environment& environment) {
  DefaultedOptions result{typed, {}, {}};
  DefaultFiller filler(site, result.options);
  const bool has_home = !environment.get("XDG_CONFIG_HOME").value_or("").empty() ||
                        !environment.get("HOME").value_or("").empty();
  bool is_users = has_home;
  for (const std::string& path : defaults_files(environment)) {
    const bool is_own = std::exchange(is_users, false);
    std::error_code failure;
    if (!std::filesystem::exists(path, failure)) continue;
    const Result<Json> document = read_defaults(path);
    if (!document.is_ok()) {
      if (is_own) return document.status();
      result.warnings.push_back(format_text("warning: left out: {}", document.status().message()));
      continue;
    }
    HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
    for (const std::string& sentence : unknown_sites(document.value(), entries, site.id)) {
      result.warnings.push_back(format_text("warning: '{}': {}", path, sentence));
    }
    const Json sites = document.value().value("sites", Json::object());
    if (sites.contains(site.id)) HVD_TRY(filler.fill(sites.at(site.id), true));
    HVD_TRY(filler.fill(document.value(), false));
    const std::vector<std::string> given = filler.take_given();
    if (!given.empty()) {
      result.origins.push_back(format_text("{} gives {}", path, joined(given, ", ")));
    }
  }
  return result;
}

}  // namespace hvd
