// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/env_report.h"

#include <algorithm>

#include "base/format.h"
#include "base/settings_text.h"
#include "launcher/console/shell_word.h"
#include "launcher/site/secret.h"

namespace hvd {
namespace {

constexpr std::string_view kUser = "user environment";

std::string shown(const PlannedVariable& variable, const std::string& value) {
  return variable.is_secret ? "(redacted)" : value;
}

std::string fact_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "2 nodes, 4 GPUs per node, fabric infiniband (ib0), NCCL 2.27.3"
std::string facts_text(const SiteFacts& facts) {
  std::vector<std::string> known{
      format_text("{} node{}", facts.nodes, facts.nodes == 1 ? "" : "s"),
      format_text("{} GPU{} per node", facts.gpus_per_node, facts.gpus_per_node == 1 ? "" : "s")};
  const std::string fabric = facts.fabric.value_or("not known");
  known.push_back(fabric.empty() ? "no fabric" : "fabric " + fabric);
  if (!facts.interfaces.empty()) known.back() += " (" + fact_list(facts.interfaces) + ")";
  if (facts.nccl) known.push_back("NCCL " + *facts.nccl);
  if (facts.plugin_found) {
    known.emplace_back(*facts.plugin_found ? "libfabric plugin found" : "no libfabric plugin");
  }
  if (facts.container) known.emplace_back(*facts.container ? "in a container" : "no container");
  if (facts.gpu_vendor) known.push_back("GPUs of " + *facts.gpu_vendor);
  if (facts.partition) known.push_back("partition " + *facts.partition);
  return fact_list(known);
}

void add_source(const Provenance& provenance, std::string& text) {
  if (provenance.source.empty()) return;
  text +=
      format_text("  source  {}, {}, {}\n", provenance.source, provenance.date, provenance.mark);
}

}  // namespace

std::vector<PlannedVariable> shown_variables(const EnvironmentPlan& plan) {
  std::vector<PlannedVariable> variables;
  const auto take = [&variables](const std::vector<PlannedVariable>& list) {
    for (const PlannedVariable& variable : list) {
      if (variable.origin == "hvdrun") continue;
      variables.push_back(variable);
      variables.back().is_secret = variable.is_secret || is_secret(variable.name, variable.value);
    }
  };
  take(plan.all);
  take(plan.by_task);
  // More than one: the ranks of this machine differ, and none of them is this process.
  if (plan.each_rank.size() == 1) take(plan.each_rank.front());
  std::stable_sort(variables.begin(), variables.end(),
                   [](const auto& left, const auto& right) { return left.name < right.name; });
  return variables;
}

std::vector<GivenSetting> given_settings(const Environment& environment) {
  std::vector<GivenSetting> given;
  for (const Setting& setting : settings()) {
    if (auto value = environment.get(setting.name)) given.push_back({&setting, *std::move(value)});
  }
  return given;
}

std::string env_text(const EnvReport& report) {
  std::string text;
  for (const PlannedVariable& variable : report.variables) {
    text += format_text("{}={}\n", variable.name, shown(variable, variable.value));
  }
  return text;
}

std::string env_explained(const EnvReport& report) {
  std::string text =
      format_text("site {} ({}): {}\n", report.site.id, report.site.name, report.site.found_by);
  text += (report.is_elsewhere ? "machine, not this one: " : "machine: ");
  text += facts_text(report.facts) + "\n";
  for (const PlannedVariable& variable : report.variables) {
    text += format_text("\n{}={}\n", variable.name, shown(variable, variable.value));
    text += format_text("  origin  {}\n  why     {}\n", variable.origin, variable.why);
    add_source(variable.provenance, text);
    for (const OverriddenValue& other : variable.overridden) {
      text += format_text("  beats   {} ({})\n", shown(variable, other.value), other.origin);
    }
  }
  if (!report.unset.empty()) text += "\nnot set:\n";
  for (const UnsetVariable& variable : report.unset) {
    text += format_text("\n{}={}\n  origin  {}\n  why not {}\n", variable.name, variable.value,
                        variable.origin, variable.why_not);
    add_source(variable.provenance, text);
  }
  if (!report.given.empty()) text += "\nset by you:\n";
  for (const GivenSetting& given : report.given) {
    text +=
        format_text("\n{}={}\n  default {}\n  meaning {}\n", given.setting->name, given.value,
                    plain_text(default_text(*given.setting)), plain_text(given.setting->meaning));
  }
  return text;
}

std::string env_export(const EnvReport& report) {
  std::string text;
  for (const PlannedVariable& variable : report.variables) {
    if (variable.origin == kUser || variable.is_secret) continue;
    text += format_text("export {}={}\n", variable.name, shell_word(variable.value));
  }
  return text;
}

}  // namespace hvd
