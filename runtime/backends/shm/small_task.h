// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/node/node_plane.h"
#include "collective/backend.h"
#include "collective/reduce.h"

namespace hvd {

/// A small allreduce within a node, in one synchronisation: every rank puts its bytes in its small
/// slot and reduces all of them itself. The same fold as ReduceStream, so the same bits. At most
/// NodePlane::kSmallBytes bytes.
std::unique_ptr<Task> make_small_task(NodePlane& plane, Batch&& batch, const Reduction& reduction);

}  // namespace hvd
