// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_environment.h"

#include <algorithm>

namespace hvd {

std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts) {
  std::vector<PlannedVariable> settings;
  for (const SiteVariable& variable : site.env) {
    const Result<Condition> condition = parse_condition(variable.when);
    if (!condition.is_ok() || variable.provenance.is_assumed()) continue;
    if (evaluate(condition.value(), facts).truth != Verdict::Truth::kTrue) continue;
    const bool is_set =
        std::any_of(settings.begin(), settings.end(),
                    [&](const PlannedVariable& other) { return other.name == variable.name; });
    if (is_set) continue;
    settings.push_back(
        {variable.name, variable.value, "site " + site.id,
         variable.why + " (" + variable.provenance.source + ", " + variable.provenance.date + ")",
         false});
  }
  return settings;
}

}  // namespace hvd
