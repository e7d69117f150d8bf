// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/placement.h"
#include "launcher/site/site.h"

namespace hvd {

/// Refuses ranks on this machine where a launcher or a script has left a number of ranks, which is
/// not theirs, and no -np was typed: another world than the one that was meant would train without
/// a word. Pure.
Status check_lone_size(const RunOptions& options, const Allocation& allocation,
                       const Placement& placement);

/// Refuses to start a step of Slurm at a site that starts its tasks with something else than srun:
/// hvdrun builds the line of srun alone. Pure.
Status check_starter(const SiteConfig& site, const Placement& placement);

}  // namespace hvd
