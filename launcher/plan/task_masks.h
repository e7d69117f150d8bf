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

/// The same for ranks of another launcher, which has the CPUs `launcher`: where it has given this
/// one fewer it has bound them all, and as many as there must be, by count, have the same ones; the
/// masks of the others are not known. Empty `launcher`: nobody knows, and all have `mine`.
std::vector<CpuSet> masks_by_launcher(const CpuSet& launcher, const CpuSet& mine, int local_rank,
                                      int local_size);

}  // namespace hvd
