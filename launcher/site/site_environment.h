// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/condition.h"
#include "launcher/site/planned_variable.h"
#include "launcher/site/site.h"

namespace hvd {

/// Variables of one origin: those to set, in the order of its file, and those not to.
struct OfferedEnvironment {
  std::vector<PlannedVariable> variables;
  std::vector<UnsetVariable> unset;
};

/// What `site` sets under `facts`; of two variables with one name the first that can be set.
/// Assumed values are set with `assume` alone.
OfferedEnvironment offer_variables(const std::vector<SiteVariable>& variables,
                                   const std::string& origin, const SiteFacts& facts, bool assume);

/// The variables that `site` sets under `facts`, assumed ones left out.
std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts);

/// Puts into `facts` what is known of a step that is started with the site's variables: its
/// network.
void start_step_here(const SiteConfig& site, SiteFacts& facts);

/// "why (source, date)"
std::string explained(const PlannedVariable& variable);

}  // namespace hvd
