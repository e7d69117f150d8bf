// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/nccl/nccl_plan.h"

namespace hvd {

/// The plan of an allreduce with Adasum, with the meaning of AdasumSchedule over all ranks. Where
/// ranks of a node meet first they share the work: at each level the partners keep a half each, and
/// sum the products of their slices; over nodes, ranks with equal slices meet. Pure, as
/// plan_nccl().
NcclPlan plan_nccl_adasum(const Batch& batch, const Communicator& communicator,
                          const NcclPlanOptions& options);

/// What of each tensor lies in the slice, with offsets from its begin; maybe nothing.
std::vector<AdasumPair> pairs_of(const NcclAdasum& adasum, const NcclAdasum::Slice& slice);

}  // namespace hvd
