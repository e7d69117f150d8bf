// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/lanes/lane_reduce_task.h"
#include "base/result.h"
#include "collective/select_allreduce.h"

namespace hvd {

/// The work between nodes that a batch of a reducing operation means.
NodeWork node_work_of(const Batch& batch, const Reduction& reduction, const LaneSet& lanes);

/// How to run a batch of an allreduce, reduce or reducescatter by the algorithm that was selected
/// for its work. Allocates the outputs that the caller left to the library.
Result<LaneReducePlan> plan_lane_reduce(const LaneSet& lanes, Batch batch,
                                        const Reduction& reduction, NodeAlgorithm algorithm);

}  // namespace hvd
