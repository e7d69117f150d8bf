// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace hvd {

/// Which ranks are connected, as a function of where they are: the same on every rank.
/// Immutable after construction.
class WiringShape {
 public:
  /// Children of a node leader in the control tree.
  static constexpr int kFanOut = 4;

  /// `node_ranks[n]` are the ranks of node n, ascending; nodes by ascending lowest rank.
  explicit WiringShape(std::vector<std::vector<int>> node_ranks);

  int nodes() const { return static_cast<int>(node_ranks_.size()); }
  int local_size(int node) const { return static_cast<int>(ranks_of(node).size()); }
  const std::vector<int>& ranks_of(int node) const {
    return node_ranks_[static_cast<std::size_t>(node)];
  }
  int rank_at(int node, int local_rank) const {
    return ranks_of(node)[static_cast<std::size_t>(local_rank)];
  }
  /// The node above in the tree of leaders; -1 at the root, which is the node of rank 0.
  static int parent_of(int node) { return node == 0 ? -1 : (node - 1) / kFanOut; }
  std::vector<int> children_of(int node) const;
  /// Data links per pair of nodes: the smallest node's size; 0 when there is one node.
  int lanes() const { return lanes_; }
  /// At least as many descriptors as a rank of the node opens to be wired: those of the local ranks
  /// at their leader, lanes, tree, and what an engine needs.
  std::size_t descriptors(int node, int sockets) const;

 private:
  std::vector<std::vector<int>> node_ranks_;
  int lanes_ = 0;
};

}  // namespace hvd
