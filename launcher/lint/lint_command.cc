// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/lint_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>

#include "base/environment.h"
#include "base/text_file.h"
#include "bootstrap/local_host.h"
#include "launcher/cluster/site_look.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/lint/file_kind.h"
#include "launcher/lint/launch_chain.h"
#include "launcher/lint/lint_script.h"
#include "launcher/lint/live_rules.h"
#include "launcher/lint/machine_facts.h"
#include "launcher/lint/output_rules.h"
#include "launcher/lint/python_program.h"
#include "launcher/lint/report.h"
#include "launcher/lint/sbatch_file.h"
#include "launcher/lint/script_file.h"
#include "launcher/lint/site_facts.h"
#include "launcher/lint/variable_rules.h"
#include "launcher/lint/version.h"
#include "launcher/plan/machine_facts.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

std::vector<SetVariable> variables_of(const Environment& environment) {
  std::vector<SetVariable> variables;
  for (const auto& [name, value] : environment.variables()) {
    variables.push_back({.name = name, .value = value});
  }
  return variables;
}

LintedFile lint_environment(const Environment& environment) {
  MachineFacts machine = read_machine_facts("");
  const std::vector<SetVariable> variables = variables_of(environment);
  // A libnccl takes long to load: only where a variable asks about its version.
  const bool asks = std::any_of(variables.begin(), variables.end(), [](const SetVariable& one) {
    return one.name.starts_with("NCCL_");
  });
  if (asks) machine.nccl_version = loaded_nccl_version().value_or("");
  return {.path = "", .site = "", .findings = check_variables(variables, &machine)};
}

/// The sites that files may be of, and the one that applies where a file does not tell.
struct SiteChoice {
  std::vector<SiteConfig> sites;  ///< Empty: --site was given.
  SiteConfig fallback;
};

/// The cluster of this machine, which is asked when a job script is the first to need it.
class LateLook {
 public:
  LateLook(const SiteConfig& site, const Environment& environment)
      : site_(site), environment_(environment) {}

  /// Null: it is not known.
  const LiveCluster* live() {
    if (!look_) {
      look_ = look_at_site(site_, environment_);
      if (!look_->problem.empty()) print_message(look_->problem);
    }
    return look_->live ? &*look_->live : nullptr;
  }

 private:
  const SiteConfig& site_;
  const Environment& environment_;
  std::optional<SiteLook> look_;
};

Result<SiteChoice> choose_sites(const LintOptions& options, const Environment& environment) {
  SiteChoice choice;
  if (!options.site.empty()) {
    HVD_TRY_ASSIGN(choice.fallback, find_site(options.site, environment));
    print_messages(choice.fallback.warnings);
    return choice;
  }
  std::vector<std::string> warnings;
  HVD_TRY_ASSIGN(choice.sites, all_sites(environment, warnings));
  print_messages(warnings);
  HVD_TRY_ASSIGN(choice.fallback, detect_site(environment, local_host_name()));
  return choice;
}

LintedFile lint_program(const std::string& path, const std::string& text) {
  return {.path = path,
          .site = "",
          .findings = lint_python(read_python_program(path, text)),
          .is_program = true};
}

/// Where a script that a launch names lies: from here, or beside the job script.
std::optional<std::string> find_program(const std::string& name,
                                        const std::filesystem::path& beside) {
  std::error_code failure;
  for (const std::string& path : {name, (beside / name).string()}) {
    if (std::filesystem::is_regular_file(path, failure)) return path;
  }
  return std::nullopt;
}

/// The Python files that a script starts, as far as they are found from here or from beside it; a
/// note in `findings` names each of the others.
std::vector<LintedFile> lint_launched(const std::string& path, const SbatchFile& file,
                                      std::vector<Finding>& findings) {
  std::vector<LintedFile> programs;
  std::set<std::string> seen;
  const std::filesystem::path beside = std::filesystem::path(path).parent_path();
  for (const LaunchLine& launch : file.launches) {
    const std::optional<std::string> script = launched_script(launch);
    if (!script || !seen.insert(*script).second) continue;
    const std::optional<std::string> found = find_program(*script, beside);
    const std::optional<std::string> text = found ? read_text_file(*found) : std::nullopt;
    if (!text) {
      findings.push_back({.rule = "not-judged",
                          .severity = Severity::kNote,
                          .line = launch.line,
                          .variable = *script,
                          .why = "not found from here, so the program itself was not read",
                          .fix = "run lint where the job will be submitted"});
      continue;
    }
    programs.push_back(lint_program(*found, *text));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return programs;
}

/// The file, and the Python programs that it starts.
Status lint_file(const std::string& path, const SiteChoice& choice, const LintOptions& options,
                 LateLook& look, std::vector<LintedFile>& files) {
  HVD_TRY_ASSIGN(const std::string text, read_script(path));
  if (is_only_python(path, text)) {
    files.push_back(lint_program(path, text));
    return Status::ok();
  }
  SbatchFile file = parse_sbatch_file(text);
  const FileKind kind = kind_of_file(path, file);
  if (kind == FileKind::kOther) {
    files.push_back({.path = path, .site = "", .findings = {no_script_finding(file)}});
    return Status::ok();
  }
  if (kind == FileKind::kPython) {
    files.push_back(lint_program(path, text));
    return Status::ok();
  }
  const SiteConfig* found = site_of_script(choice.sites, file);
  const SiteConfig& site = found == nullptr ? choice.fallback : *found;
  LintedFile linted{.path = path, .site = site.id, .findings = {}};
  if (options.fix) {
    MendedScript mended = mend_script(text, site, options.slurm);
    if (mended.text != text) {
      HVD_TRY(replace_script(path, mended.text));
      file = parse_sbatch_file(mended.text);
    }
    linted.mended = std::move(mended.changes);
  }
  linted.findings = lint_script(file, site, options.slurm);
  const LiveCluster* live = site.id == choice.fallback.id ? look.live() : nullptr;
  if (live != nullptr) {
    for (Finding& finding : check_live(file, site, *live)) {
      linted.findings.push_back(std::move(finding));
    }
  }
  for (Finding& finding : check_output_folders(file, path)) {
    linted.findings.push_back(std::move(finding));
  }
  std::vector<LintedFile> programs = lint_launched(path, file, linted.findings);
  files.push_back(std::move(linted));
  std::move(programs.begin(), programs.end(), std::back_inserter(files));
  return Status::ok();
}

Result<std::vector<LintedFile>> lint_all(const LintOptions& options,
                                         const Environment& environment) {
  if (!options.slurm.empty() && !compare_versions(options.slurm, "0")) {
    return error(Code::kInvalidArgument, "--slurm: '{}' is not a version: type it as in 23.02",
                 options.slurm);
  }
  if (options.environment) return std::vector<LintedFile>{lint_environment(environment)};
  HVD_TRY_ASSIGN(const SiteChoice choice, choose_sites(options, environment));
  LateLook look(choice.fallback, environment);
  std::vector<LintedFile> files;
  for (const std::string& path : options.files) {
    HVD_TRY(lint_file(path, choice, options, look, files));
  }
  return files;
}

std::string report_of(const std::vector<LintedFile>& files, LintFormat format, bool color) {
  switch (format) {
    case LintFormat::kText:
      return report_text(files, color);
    case LintFormat::kJson:
      return report_json(files);
    case LintFormat::kGithub:
      return report_github(files);
    case LintFormat::kSarif:
      return report_sarif(files, HVD_VERSION);
  }
  return "";
}

}  // namespace

int run_lint(const LintOptions& options) {
  const Environment environment = Environment::of_process();
  const Result<std::vector<LintedFile>> linted = lint_all(options, environment);
  if (!linted.is_ok()) {
    print_message(linted.status().message());
    return kExitUsage;
  }
  const std::vector<LintedFile>& files = linted.value();
  std::fputs(report_of(files, options.format, wants_color(STDOUT_FILENO, environment)).c_str(),
             stdout);
  if (std::fflush(stdout) != 0) return kExitFailure;
  const bool is_wrong = std::any_of(
      files.begin(), files.end(), [](const LintedFile& file) { return has_fault(file.findings); });
  return is_wrong ? kExitFailure : 0;
}

}  // namespace hvd
