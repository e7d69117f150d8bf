// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_environment.h"

namespace hvd {

namespace {

bool condition_holds(const std::string& when, const SiteFacts& facts) {
  if (when == "always") return true;
  if (when == "nodes>1") return facts.nodes > 1;
  if (when == "gpus>0") return facts.gpus_per_node > 0;
  return false;  // "historical"; the schema admits nothing else
}

}  // namespace

std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts) {
  std::vector<PlannedVariable> settings;
  for (const SiteVariable& variable : site.env) {
    if (!condition_holds(variable.when, facts)) continue;
    settings.push_back(
        {variable.name, variable.value, "site " + site.id,
         variable.why + " (" + variable.provenance.source + ", " + variable.provenance.date + ")",
         false});
  }
  return settings;
}

}  // namespace hvd
