// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/placement.h"
#include "topology/gpu_list.h"

namespace hvd {

/// Says in the warnings what costs the job speed, and the flag to change: a GPU that no rank uses,
/// a rank far from its GPU, GPUs that the ranks of a node hide from each other. A step says each
/// once: rank 0 what all share, the ranks of the first node what is theirs. Pure.
void append_warnings(const Allocation& allocation, const VisibleGpus& visible, int local_size,
                     Placement& placement);

}  // namespace hvd
