// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/nccl/nccl_plan.h"

namespace hvd {

/// The plan of an allreduce with Adasum. Pure, as plan_nccl().
NcclPlan plan_nccl_adasum(const Batch& batch, const Communicator& communicator);

}  // namespace hvd
