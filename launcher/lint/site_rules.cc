// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/site_facts.h"
#include "launcher/site/pattern.h"

namespace hvd {
namespace {

void add_account(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "account");
  if (directive == nullptr || facts.partition == nullptr || facts.request.account.empty()) return;
  const std::string& account = facts.request.account;
  const std::string& suffix = facts.partition->account_suffix;
  if (!suffix.empty() && !account.ends_with(suffix)) {
    const std::string project = account.substr(0, account.find('@'));
    Finding finding = directive_finding("wrong-account", *directive);
    finding.why = format_text("hours of '{}' are not for {}, whose accounts end in {}", account,
                              facts.partition->name, suffix);
    finding.fix = format_text("write {}{}", project, suffix);
    finding.edit = new_value(*directive, project + suffix);
    findings.push_back(
        held_against(std::move(finding), provenance_of(*facts.partition, "account_suffix")));
    return;
  }
  if (facts.site.account_pattern.empty()) return;
  const Result<bool> matches = pattern_matches(facts.site.account_pattern, account);
  if (!matches.is_ok() || matches.value()) return;
  Finding finding = directive_finding("wrong-account", *directive);
  finding.severity = Severity::kWarning;
  finding.why = format_text("'{}' does not look like an account of {}", account, facts.site.name);
  finding.fix = format_text("write one such as {}", facts.site.account_example);
  findings.push_back(
      held_against(std::move(finding), provenance_of(facts.site, "account/pattern")));
}

/// What the site refuses a job without.
void add_required_options(const ScriptFacts& facts, std::vector<Finding>& findings) {
  if (facts.file.directives.empty()) return;  // no header: its options stand on a command line
  const SiteConfig& site = facts.site;
  if (site.account_required && find_directive(facts.file, site.account_flag) == nullptr) {
    Finding finding{.rule = "missing-account",
                    .severity = Severity::kError,
                    .variable = "--" + site.account_flag};
    finding.why = format_text("{} refuses a job without an account", site.name);
    finding.fix = format_text("add --{}={}", site.account_flag,
                              site.account_example.empty() ? "PROJECT" : site.account_example);
    findings.push_back(held_against(std::move(finding), provenance_of(site, "account/required")));
  }
  if (!site.time_required || find_directive(facts.file, "time") != nullptr) return;
  Finding finding{.rule = "missing-time", .severity = Severity::kError, .variable = "--time"};
  finding.why = format_text("{} refuses a job without a time limit", site.name);
  finding.fix = format_text("add --time={}", site.time.empty() ? "H:MM:SS" : site.time);
  if (!site.time.empty()) finding.edit = new_directive(facts.file, "--time=" + site.time);
  findings.push_back(held_against(std::move(finding), provenance_of(site, "time_required")));
}

/// --hint=nomultithread and its two other spellings.
bool says_threads(const SbatchFile& file) {
  return find_directive(file, "hint") != nullptr ||
         find_directive(file, "ntasks-per-core") != nullptr ||
         find_directive(file, "threads-per-core") != nullptr;
}

void add_wanted(const ScriptFacts& facts, std::vector<Finding>& findings) {
  if (facts.partition == nullptr) return;
  if (!facts.site.hint.empty() && !says_threads(facts.file)) {
    Finding finding{.rule = "missing-directive", .variable = "--hint"};
    finding.why = format_text("{} wants --hint={}: else a hardware thread counts as a core",
                              facts.site.id, facts.site.hint);
    finding.fix = format_text("add --hint={}", facts.site.hint);
    finding.edit = new_directive(facts.file, "--hint=" + facts.site.hint);
    findings.push_back(held_against(std::move(finding), provenance_of(facts.site, "hint")));
  }
  for (const SiteDirective& wanted : facts.site.directives) {
    if (find_directive(facts.file, wanted.option) != nullptr) continue;
    const bool is_threads = wanted.option == "ntasks-per-core" || wanted.option == "hint";
    if (is_threads && says_threads(facts.file)) continue;
    const std::string option = wanted.value.empty()
                                   ? format_text("--{}", wanted.option)
                                   : format_text("--{}={}", wanted.option, wanted.value);
    Finding finding{.rule = "missing-directive", .variable = "--" + wanted.option};
    finding.why = wanted.why;
    finding.fix = format_text("add {}", option);
    finding.edit = new_directive(facts.file, option);
    findings.push_back(held_against(std::move(finding), wanted.provenance));
  }
}

bool is_forbidden(const SiteForbidden& rule, const std::optional<std::string>& value) {
  if (!rule.value.empty() && value != rule.value) return false;
  if (!rule.over) return true;
  std::int64_t number = 0;
  const std::string text = value.value_or("");
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && number > *rule.over;
}

void add_forbidden(const ScriptFacts& facts, std::vector<Finding>& findings) {
  for (const SiteForbidden& rule : facts.site.forbidden) {
    for (const Directive& directive : facts.file.directives) {
      if (directive.option != rule.option || !is_forbidden(rule, directive.value)) continue;
      Finding finding = directive_finding("forbidden-option", directive);
      finding.why = rule.why;
      finding.fix = "drop it";
      if (rule.value.empty() && !rule.over) finding.edit = removal(directive);
      findings.push_back(held_against(std::move(finding), rule.provenance));
    }
    const bool is_nodelist = rule.option == "nodelist";
    for (const LaunchLine& launch : facts.file.launches) {
      const auto value =
          launch_option(launch, "--" + rule.option, is_nodelist ? 'w' : static_cast<char>(0));
      if (launch.program != "srun" || !value || !is_forbidden(rule, value)) continue;
      Finding finding{.rule = "forbidden-option",
                      .severity = Severity::kError,
                      .line = launch.line,
                      .variable = "srun --" + rule.option,
                      .why = rule.why,
                      .fix = "drop it"};
      findings.push_back(held_against(std::move(finding), rule.provenance));
    }
  }
}

void add_gpu_style(const ScriptFacts& facts, std::vector<Finding>& findings) {
  if (facts.partition == nullptr) return;
  for (const char* option : {"gres", "gpus-per-node", "gpus"}) {
    const Directive* directive = find_directive(facts.file, option);
    if (directive == nullptr || !directive->value) continue;
    const bool is_gres = directive->option == "gres";
    if (!gpu_count(*directive->value, is_gres)) continue;
    Finding finding = directive_finding("gpu-option-style", *directive);
    if (facts.site.gres_style == GresStyle::kNone) {
      finding.why = "the GPUs come with the node here, and Slurm knows no GPU resource";
      finding.fix = "drop it";
      finding.edit = removal(*directive);
    } else if (facts.site.typed && gpu_type_of(*directive->value, is_gres).empty()) {
      finding.why = "GPUs are asked for by their type here";
      finding.fix =
          facts.partition->gpu_type.empty()
              ? std::string("name the type, such as a100:4")
              : format_text("write {}{}:N", is_gres ? "gpu:" : "", facts.partition->gpu_type);
    } else {
      continue;
    }
    findings.push_back(held_against(std::move(finding), provenance_of(facts.site, "gres_style")));
  }
}

bool holds(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

/// The partition whose module this is, and not `own`'s; null: none's, or own's.
const SitePartition* other_owner(const ScriptFacts& facts, const std::string& module) {
  if (facts.partition != nullptr && holds(facts.partition->modules, module)) return nullptr;
  for (const SitePartition& partition : facts.site.partitions) {
    if (&partition != facts.partition && holds(partition.modules, module)) return &partition;
  }
  return nullptr;
}

std::string way_to(const SitePartition& partition) {
  if (partition.select == PartitionSelect::kConstraint) return "-C " + partition.constraint;
  return "--partition=" + partition.name;
}

void add_mismatched(const ScriptFacts& facts, std::vector<Finding>& findings) {
  for (const ModuleLine& line : facts.file.modules) {
    for (std::size_t i = 0; i < line.names.size(); ++i) {
      const SitePartition* owner = other_owner(facts, line.names[i]);
      if (owner == nullptr) continue;
      const SitePartition& own = *facts.partition;
      Finding finding{.rule = "module-mismatch",
                      .severity = Severity::kError,
                      .line = line.line,
                      .variable = line.names[i]};
      finding.why = format_text("the module is for {} ({}), and the job goes to {}", owner->name,
                                way_to(*owner), own.name);
      finding.fix = format_text("add {}, or drop the module", way_to(*owner));
      if (own.modules.size() == 1) {
        finding.fix = format_text("load {}, or write {}", own.modules.front(), way_to(*owner));
        finding.edit = Edit{line.names_at[i].begin, line.names_at[i].end, own.modules.front()};
      }
      findings.push_back(held_against(std::move(finding), owner->provenance));
    }
  }
}

void add_required(const ScriptFacts& facts, std::vector<Finding>& findings) {
  for (const std::string& wanted : facts.partition->modules) {
    const ModuleLine* first = nullptr;
    const ModuleLine* found = nullptr;
    std::string before;
    bool has_other = false;
    for (const ModuleLine& line : facts.file.modules) {
      for (const std::string& module : line.names) {
        if (first == nullptr) first = &line;
        if (module == wanted && found == nullptr) found = &line;
        if (found == nullptr && before.empty()) before = module;
        has_other = has_other || other_owner(facts, module) != nullptr;
      }
    }
    // A mismatched module has its own finding, and a script without modules its own software.
    if (first == nullptr || has_other) continue;
    if (found != nullptr && before.empty()) continue;
    Finding finding{.rule = found == nullptr ? "missing-module" : "module-order",
                    .line = found == nullptr ? first->line : found->line,
                    .variable = wanted};
    if (found == nullptr) {
      finding.why = format_text("{} needs it before other modules", facts.partition->name);
      finding.fix = format_text("add 'module load {}' first", wanted);
      const std::size_t name = first->names_at.front().begin;
      const std::size_t end = facts.file.text.rfind('\n', name);
      const std::size_t begin = end == std::string::npos ? 0 : end + 1;
      finding.edit = Edit{begin, begin, format_text("module load {}\n", wanted)};
    } else {
      finding.severity = Severity::kError;
      finding.why =
          format_text("'{}' is loaded before it, from the modules of other nodes", before);
      finding.fix = format_text("load {} first", wanted);
    }
    findings.push_back(
        held_against(std::move(finding), provenance_of(*facts.partition, "modules")));
  }
}

}  // namespace

std::vector<Finding> check_site_options(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_account(facts, findings);
  add_required_options(facts, findings);
  add_wanted(facts, findings);
  add_forbidden(facts, findings);
  add_gpu_style(facts, findings);
  if (!facts.site.retired.empty()) {
    findings.push_back({.rule = "retired-site",
                        .severity = Severity::kNote,
                        .why = format_text("{}: {}", facts.site.name, facts.site.retired),
                        .fix = "choose another with --site",
                        .source = provenance_text(facts.site.provenance)});
  }
  return findings;
}

std::vector<Finding> check_modules(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  if (facts.partition == nullptr) return findings;
  add_mismatched(facts, findings);
  add_required(facts, findings);
  return findings;
}

}  // namespace hvd
