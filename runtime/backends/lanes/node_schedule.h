// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collective/select_allreduce.h"

namespace hvd {

/// What one node sends, receives and folds, step by step, so that partial results become results.
///
/// A piece is cut into `parts`; a move carries some of them that lie side by side. Partial results
/// that arrive in one step are folded with the node's own: in the tree over nodes, whose left half
/// is the largest power of two below their number, as if all had been folded in one place. So the
/// association is that of the tree, whatever the algorithm. Results replace what was there.
/// Pure: the same on every rank except for `me`, and as many steps on every node.
struct NodeSchedule {
  struct Move {
    int node = 0;  ///< The other one.
    std::size_t first = 0;
    std::size_t last = 0;  ///< Of the parts: [first, last).
    bool operator==(const Move&) const = default;
  };
  struct Step {
    std::vector<Move> sends;     ///< At the beginning of the step.
    std::vector<Move> receives;  ///< Of partial results: the same parts, in the order of the fold.
    std::size_t own_at = 0;      ///< My place among them.
    bool of_results = false;     ///< What moves is finished.
    bool finishes = false;       ///< The fold of this step gives results.
  };
  std::size_t parts = 1;
  std::vector<Step> steps;
  /// The parts whose results are here at the end.
  std::size_t known_first = 0;
  std::size_t known_last = 0;
};

/// The schedule of node `me` among `nodes` (two or more). `root`: for NodeGoal::kOneNode. With
/// kOwnShare part m belongs to node m.
NodeSchedule make_node_schedule(NodeAlgorithm algorithm, NodeGoal goal, int nodes, int me,
                                int root = 0);

}  // namespace hvd
