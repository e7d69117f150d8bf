// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/plan/allocation.h"
#include "launcher/plan/meeting.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// What the machine wants of the environment: the site's variables first, then what follows from
/// its interfaces and names of hosts, then the fabric's. A name that two have is there twice.
struct MachineEnvironment {
  std::vector<PlannedVariable> offered;
  std::vector<UnsetVariable> unset;
};

/// Decides it. Pure.
MachineEnvironment plan_machine(const SiteConfig& site, const std::vector<SiteVariable>& fabric,
                                const SiteFacts& facts, bool assume,
                                const MeetingFacts& meeting = {});

/// Reads what its conditions ask about and decides it. `facts` holds what is known already, of
/// which the fabric is read where it is absent.
MachineEnvironment read_machine(const SiteConfig& site, const Allocation& allocation,
                                SiteFacts& facts, bool assume);

}  // namespace hvd
