// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/node/exchange.h"
#include "backends/node/node_plane.h"
#include "collective/backend.h"

namespace hvd {

/// An Adasum of every tensor of the batch over all ranks of the communicator: pairs of ranks
/// exchange their gradients level after level, as AdasumSchedule says, and combine them in float32
/// (float64 for float64). Two copies of the batch in that type are held meanwhile. Scaled as a sum
/// is; half types are rounded once, at the end.
std::unique_ptr<Task> make_adasum_task(NodePlane& plane, const Communicator& communicator,
                                       Batch batch, ExchangeFactory factory);

}  // namespace hvd
