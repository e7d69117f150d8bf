// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/lanes/lane_set.h"
#include "backends/lanes/node_schedule.h"
#include "backends/node/node_plane.h"
#include "collective/batch.h"
#include "collective/reduce.h"

namespace hvd {

/// A reducing batch, and how the nodes share the work.
struct LaneReducePlan {
  Batch batch;  ///< As as_allreduce() makes it.
  Reduction reduction;
  NodeSchedule schedule;
  int owners = 1;  ///< Local ranks that share the bytes, each over its lane.
  /// Elements of each part of a piece, where all rounds are alike; else parts are even.
  std::vector<std::size_t> part_elements = {};
};

/// Reduces within each node by pieces; the local rank that owns a piece reduces it with the other
/// nodes over its own lane, by the plan's schedule; results are spread within the node again.
///
/// The nodes are folded in one tree, from partial results (narrow ones: in order), so the bits
/// depend on ranks, nodes and type alone. Several rounds are under way at once.
std::unique_ptr<Task> make_lane_reduce_task(NodePlane& plane, LaneSet& lanes, LaneReducePlan plan);

}  // namespace hvd
