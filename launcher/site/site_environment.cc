// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_environment.h"

#include <algorithm>
#include <array>

namespace hvd {
namespace {

std::string joined_with_spaces(const std::vector<std::string>& words,
                               std::string_view behind_each = "") {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word + std::string(behind_each);
  }
  return text;
}

/// Puts names of this node's ports in the place of "{interfaces}" and its like. False: a port is
/// asked for, and none is known.
bool fill_in(std::string& value, const SiteFacts& facts) {
  const std::string first = facts.interfaces.empty() ? "" : facts.interfaces.front();
  const std::array<std::pair<std::string_view, std::string>, 4> ports{
      {{"{interfaces}", joined_with_spaces(facts.interfaces)},
       {"{interface}", first},
       {"{devices}", joined_with_spaces(facts.devices)},
       {"{ports}", joined_with_spaces(facts.devices, ":1")}}};
  for (const auto& [mark, names] : ports) {
    const std::size_t at = value.find(mark);
    if (at == std::string::npos) continue;
    if (names.empty()) return false;
    value.replace(at, mark.size(), names);
  }
  return true;
}

/// Why a variable is not set; the reason is empty where it is.
Verdict obstacle(const SiteVariable& variable, const SiteFacts& facts, bool assume) {
  const Result<Condition> condition = parse_condition(variable.when);
  if (!condition.is_ok()) return {.reason = condition.status().message()};
  Verdict verdict = evaluate(condition.value(), facts);
  if (verdict.reason.empty() && variable.provenance.is_assumed() && !assume) {
    verdict.reason = "assumed, not documented: --assume sets it";
  }
  return verdict;
}

}  // namespace

OfferedEnvironment offer_variables(const std::vector<SiteVariable>& variables,
                                   const std::string& origin, const SiteFacts& facts, bool assume) {
  OfferedEnvironment offered;
  for (const SiteVariable& variable : variables) {
    std::string value = variable.value;
    const Verdict verdict = obstacle(variable, facts, assume);
    std::string why_not = verdict.reason;
    const bool is_set =
        std::any_of(offered.variables.begin(), offered.variables.end(),
                    [&](const PlannedVariable& other) { return other.name == variable.name; });
    if (why_not.empty() && is_set) why_not = "an earlier entry of its name holds";
    if (why_not.empty() && !fill_in(value, facts)) why_not = "no port of the fabric is known here";
    if (why_not.empty()) {
      offered.variables.push_back(
          {variable.name, value, origin, variable.why, false, variable.provenance, {}});
    } else {
      const bool needs_network =
          verdict.truth == Verdict::Truth::kUnknown && verdict.fact == Fact::kStepNetwork;
      offered.unset.push_back(
          {variable.name, value, origin, why_not, variable.provenance, needs_network});
    }
  }
  return offered;
}

std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts) {
  return offer_variables(site.env, "site " + site.id, facts, false).variables;
}

void start_step_here(const SiteConfig& site, SiteFacts& facts) {
  if (facts.step_network) return;
  std::string network;
  for (const PlannedVariable& variable : site_environment(site, facts)) {
    if (variable.name == "SLURM_NETWORK") network = variable.value;
  }
  facts.step_network = network;
}

std::string explained(const PlannedVariable& variable) {
  if (variable.provenance.source.empty()) return variable.why;
  return format_text("{} ({}, {})", variable.why, variable.provenance.source,
                     variable.provenance.date);
}

}  // namespace hvd
