// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/output_rules.h"

#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "launcher/lint/header_rules.h"

namespace hvd {
namespace {

bool is_folder(const std::filesystem::path& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure);
}

/// Where --chdir leads; empty: the folder from which the script is submitted.
std::filesystem::path working_folder(const SbatchFile& file) {
  const Directive* chdir = find_directive(file, "chdir");
  return chdir == nullptr ? "" : chdir->value.value_or("");
}

std::optional<Finding> check_output_folder(const SbatchFile& file, const Directive& directive,
                                           const std::filesystem::path& beside) {
  const std::string value = directive.value.value_or("");
  const std::size_t slash = value.rfind('/');
  if (slash == std::string::npos || slash == 0) return std::nullopt;
  const std::string named = value.substr(0, slash);
  if (named.find('%') != std::string::npos) return std::nullopt;
  const std::filesystem::path folder = working_folder(file) / named;
  const bool is_known = folder.is_absolute();
  if (is_folder(folder) || (!is_known && is_folder(beside / folder))) return std::nullopt;
  Finding finding = directive_finding("output-folder", directive);
  finding.source.clear();
  finding.why = format_text(
      "folder '{}' is {}; without it Slurm ends the job before the script begins, without a word "
      "(ExitCode 0:53)",
      folder.string(),
      is_known ? "not on this machine"
               : "neither here nor beside the script, and lint cannot know the folder from which "
                 "it will be submitted");
  finding.fix = format_text("mkdir -p {} there before sbatch: in the script it comes too late",
                            folder.string());
  if (value.find('$') != std::string::npos || value.starts_with('~')) {
    finding.fix = "write the path out: sbatch puts in neither variables nor ~";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_output_folders(const SbatchFile& file, const std::string& path) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path();
  std::vector<Finding> findings;
  for (const char* option : {"output", "error"}) {
    const Directive* directive = find_directive(file, option);
    if (directive == nullptr) continue;
    auto finding = check_output_folder(file, *directive, beside);
    if (finding) findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace hvd
