// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/lanes/lane_set.h"
#include "backends/shm/node_plane.h"
#include "collective/batch.h"
#include "collective/reduce.h"

namespace hvd {

/// An allreduce over several nodes: reduced within each node by pieces, each piece exchanged by the
/// local rank that owns it over its own lane, the results spread within the node again.
///
/// Over two nodes, and for small batches, each node sends its partial results whole and all
/// reduce them; otherwise node m reduces slice m of the piece and sends its result to the others.
/// The nodes are always folded in the same tree, from partial results (narrow ones: in order), so
/// the bits depend on ranks, nodes and type alone.
std::unique_ptr<Task> make_lane_reduce_task(NodePlane& plane, LaneSet& lanes, Batch batch,
                                            const Reduction& reduction);

}  // namespace hvd
