// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/lanes/lane_set.h"
#include "backends/node/exchange.h"
#include "backends/node/node_plane.h"

namespace hvd {

/// An exchange over several nodes, in rounds of two slots: in the first every rank puts down what
/// it sends to all others; those of its node read it there, and the lane that serves the rank sends
/// the rest to the other nodes, where it arrives in the second slot of the same lane. The ranks of
/// a node share its lanes evenly.
Result<std::unique_ptr<Transfer>> start_lane_exchange(NodePlane& plane, LaneSet& lanes,
                                                      ExchangePlan plan);

}  // namespace hvd
