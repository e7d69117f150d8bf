// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/placement.h"
#include "topology/gpu_list.h"

namespace hvd {

/// Gives the ranks of `placement`, of the `local_size` ranks of this machine, their GPUs, NICs,
/// CPUs, memory and threads; says in notes and warnings what is not as it should be. Pure.
Status give_resources(const RunOptions& options, const Allocation& allocation,
                      const VisibleGpus& visible, int local_size, Placement& placement);

/// What the ranks have of an environment once -x has changed it.
Environment environment_of_ranks(const RunOptions& options, const Environment& environment);

/// CPUs that the user asked for each rank, of hvdrun or of Slurm; nothing: not said.
Result<std::optional<int>> asked_cpus(const RunOptions& options, const Environment& environment);

}  // namespace hvd
