// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"
#include "launcher/plan/placement.h"
#include "launcher/site/site.h"

namespace hvd {

/// Refuses to start a step of Slurm at a site that starts its tasks with something else than srun:
/// hvdrun builds the line of srun alone. Pure.
Status check_starter(const SiteConfig& site, const Placement& placement);

}  // namespace hvd
