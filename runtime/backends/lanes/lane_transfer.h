// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/lanes/lane_set.h"
#include "backends/node/node_plane.h"
#include "backends/node/rooted.h"

namespace hvd {

/// A broadcast or allgather over several nodes: the root puts a round into its slot, each lane of
/// its node sends its piece of it to other nodes, where it arrives straight in a slot. A broadcast
/// goes on from there where that is faster (see BroadcastShape); of an allgather, in which every
/// node has something to send, each goes straight to all.
std::unique_ptr<Transfer> start_lane_transfer(NodePlane& plane, LaneSet& lanes, RootedPlan plan);

}  // namespace hvd
