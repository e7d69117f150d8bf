// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backends/nccl/nccl_plan.h"

namespace hvd {

/// The plan of an allreduce, reduce or reducescatter, except for Adasum. Pure, as plan_nccl().
NcclPlan plan_nccl_reduction(const Batch& batch, const Communicator& communicator,
                             const NcclPlanOptions& options);

}  // namespace hvd
