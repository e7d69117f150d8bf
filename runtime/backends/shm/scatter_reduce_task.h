// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/node/node_plane.h"
#include "collective/backend.h"
#include "collective/reduce.h"

namespace hvd {

/// A large reducescatter within a node: every rank hands each other rank its bytes of that rank's
/// share, which folds them, in rank order, straight into its output. Every byte crosses the node
/// once. `batch` is as as_allreduce() makes it: one segment for each tensor and rank.
std::unique_ptr<Task> make_scatter_reduce_task(NodePlane& plane, Batch batch,
                                               const Reduction& reduction);

}  // namespace hvd
