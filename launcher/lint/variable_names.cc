// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/format.h"
#include "launcher/lint/known_variable.h"
#include "launcher/lint/variable_rules.h"
#include "launcher/lint/version.h"

namespace hvd {
namespace {

std::optional<Edit> rename_edit(const SetVariable& variable, std::string_view name) {
  if (!variable.name_at) return std::nullopt;
  return Edit{variable.name_at->begin, variable.name_at->end, std::string(name)};
}

std::optional<Edit> removal_edit(const SetVariable& variable) {
  if (!variable.whole_at) return std::nullopt;
  return Edit{variable.whole_at->begin, variable.whole_at->end, ""};
}

/// "NCCL" of "NCCL_IB_HCA": whose version counts.
bool is_of_nccl(const SetVariable& variable) {
  const VariableFamily* family = family_of(variable.name);
  return family != nullptr && family->name == "NCCL";
}

std::optional<Finding> unknown_name(const SetVariable& variable) {
  const VariableFamily* family = family_of(variable.name);
  if (family == nullptr) return std::nullopt;
  const std::string_view nearest = nearest_variable(variable.name);
  if (!nearest.empty()) {
    const KnownVariable& known = *find_variable(nearest);
    return Finding{
        .rule = "unknown-variable",
        .line = variable.line,
        .variable = variable.name,
        .why = format_text("{} knows no {}, and what it does not know it ignores without "
                           "a word",
                           family->name, variable.name),
        .fix = format_text("write {}", nearest),
        .source = source_of(known),
        .edit = rename_edit(variable, nearest)};
  }
  if (!family->is_complete) return std::nullopt;
  return Finding{
      .rule = "unknown-variable",
      .severity = Severity::kNote,
      .line = variable.line,
      .variable = variable.name,
      .why = format_text("no {} of this name is known (newer than the table, a plugin's, "
                         "or a slip)",
                         family->name),
      .fix = "check the name, or drop it"};
}

std::optional<Finding> removed_name(const SetVariable& variable, const KnownVariable& known,
                                    std::string_view nccl) {
  const bool has_version = is_of_nccl(variable) && !nccl.empty();
  if (has_version && compare_versions(nccl, known.removed).value_or(0) < 0) return std::nullopt;
  const std::string_view successor =
      known.renamed_to.empty() ? known.replacement : known.renamed_to;
  Finding finding{.rule = known.renamed_to.empty() ? "removed-variable" : "renamed-variable",
                  .severity = Severity::kError,
                  .line = variable.line,
                  .variable = variable.name,
                  .source = source_of(known)};
  finding.why = format_text("not read since {}{}{}{}", known.removed,
                            has_version ? format_text(" (here is {})", nccl) : "",
                            known.note.empty() ? "" : "; ", known.note);
  finding.fix = successor.empty() ? "drop it" : format_text("use {}, or drop it", successor);
  if (known.renamed_to.empty()) {
    finding.edit = removal_edit(variable);
    if (!successor.empty()) finding.fix = format_text("drop it; {} is in its place", successor);
    return finding;
  }
  finding.fix = format_text("write {}", known.renamed_to);
  finding.edit = rename_edit(variable, known.renamed_to);
  return finding;
}

std::optional<Finding> outdated_name(const SetVariable& variable, const KnownVariable& known,
                                     std::string_view nccl) {
  if (!known.renamed_to.empty()) {
    return Finding{.rule = "renamed-variable",
                   .severity = Severity::kNote,
                   .line = variable.line,
                   .variable = variable.name,
                   .why = format_text("the name is {} now{}{}", known.renamed_to,
                                      known.note.empty() ? "" : "; ", known.note),
                   .fix = format_text("write {} where it is known", known.renamed_to),
                   .source = source_of(known)};
  }
  if (!known.deprecated.empty()) {
    const auto order = compare_versions(nccl, known.deprecated);
    if (is_of_nccl(variable) && order && *order < 0) return std::nullopt;
    return Finding{.rule = "deprecated-variable",
                   .severity = Severity::kNote,
                   .line = variable.line,
                   .variable = variable.name,
                   .why = format_text("deprecated since {}{}{}", known.deprecated,
                                      known.note.empty() ? "" : ": ", known.note),
                   .fix = known.replacement.empty()
                              ? std::string("leave it unset")
                              : format_text("use {} where it is known", known.replacement),
                   .source = source_of(known)};
  }
  const auto order = compare_versions(nccl, known.since);
  if (!is_of_nccl(variable) || !order || *order >= 0) return std::nullopt;
  return Finding{.rule = "too-new-variable",
                 .line = variable.line,
                 .variable = variable.name,
                 .why = format_text("read since {}, and the library here is {}", known.since, nccl),
                 .fix = "drop it, or use a newer NCCL",
                 .source = source_of(known)};
}

std::optional<Finding> launcher_name(const SetVariable& variable, const KnownVariable& known) {
  if (variable.line == 0 || !known.note.starts_with("set by hvdrun")) return std::nullopt;
  return Finding{.rule = "set-by-hvdrun",
                 .line = variable.line,
                 .variable = variable.name,
                 .why =
                     "hvdrun gives each rank its own value; one line of a script gives all ranks "
                     "the same one",
                 .fix = "drop it",
                 .source = source_of(known),
                 .edit = removal_edit(variable)};
}

/// Copied from a script for Horovod: nothing is wrong, and nothing comes of it.
std::optional<Finding> idle_name(const SetVariable& variable, const KnownVariable& known) {
  if (known.note.find("libhvd does not read it") == std::string_view::npos) return std::nullopt;
  return Finding{.rule = "variable-without-effect",
                 .severity = Severity::kNote,
                 .line = variable.line,
                 .variable = variable.name,
                 .why = std::string(known.note),
                 .fix = "drop it where the program uses hvd, or the package horovod of hvdrun",
                 .source = source_of(known)};
}

std::optional<Finding> check_name(const SetVariable& variable, std::string_view nccl) {
  const KnownVariable* known = find_variable(variable.name);
  if (known == nullptr) return unknown_name(variable);
  if (!known->removed.empty()) return removed_name(variable, *known, nccl);
  if (auto finding = launcher_name(variable, *known)) return finding;
  if (auto finding = idle_name(variable, *known)) return finding;
  return outdated_name(variable, *known, nccl);
}

}  // namespace

const SetVariable* find_set(const std::vector<SetVariable>& variables, std::string_view name) {
  const auto found = std::find_if(variables.rbegin(), variables.rend(),
                                  [&](const SetVariable& one) { return one.name == name; });
  return found == variables.rend() ? nullptr : &*found;
}

std::vector<Finding> check_variable_names(const std::vector<SetVariable>& variables,
                                          const MachineFacts* machine) {
  const std::string nccl = machine == nullptr ? "" : machine->nccl_version;
  std::vector<Finding> findings;
  for (const SetVariable& variable : variables) {
    if (auto finding = check_name(variable, nccl)) findings.push_back(*std::move(finding));
  }
  return findings;
}

std::vector<Finding> check_variables(const std::vector<SetVariable>& variables,
                                     const MachineFacts* machine) {
  std::vector<Finding> findings = check_variable_names(variables, machine);
  for (auto more : {check_variable_values(variables), check_variable_conflicts(variables),
                    check_variable_devices(variables, machine)}) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

}  // namespace hvd
