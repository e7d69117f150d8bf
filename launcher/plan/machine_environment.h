// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/environment.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// What the machine wants of the environment: the site's variables first, then the fabric's. A name
/// that both have is there twice.
struct MachineEnvironment {
  std::vector<PlannedVariable> offered;
  std::vector<UnsetVariable> unset;
};

/// Decides it. Pure.
MachineEnvironment plan_machine(const SiteConfig& site, const std::vector<SiteVariable>& fabric,
                                const SiteFacts& facts, bool assume);

/// Reads what its conditions ask about and decides it. `facts` holds what is known already, of
/// which the fabric is read where it is absent.
MachineEnvironment read_machine(const SiteConfig& site, const Environment& environment,
                                SiteFacts& facts, bool assume);

}  // namespace hvd
