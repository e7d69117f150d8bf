// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/environment.h"
#include "topology/cpu_set.h"

namespace hvd {

/// The CPU mask of each local rank of a Slurm step, as far as this task can know it: its own is
/// `mine`. One that the ranks share is `mine` for all of them. Where Slurm's list is not what
/// binds this task, the others' masks are taken to be disjoint and unknown: empty.
std::vector<CpuSet> task_masks(const Environment& environment, const CpuSet& mine, int local_rank,
                               int local_size);

}  // namespace hvd
