// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

/// The ranks that take part in a collective and the nodes they live on.
///
/// All indices here are *ranks of this communicator* (0..size-1); for the global process set they
/// equal the ranks of the job. A node is a group of ranks that share memory. Nodes are numbered by
/// their lowest rank, ranks in a node are in ascending order: the order of every sum.
/// Immutable after construction.
struct Communicator {
  /// Of a set that is still being formed: backends are created before it has a number.
  static constexpr int kUnnumbered = -1;

  int process_set = 0;
  int rank = 0;
  int size = 1;
  std::vector<int> world_ranks;         ///< [size] rank of the job for each rank here.
  std::vector<std::vector<int>> nodes;  ///< [node][local rank] -> rank here.
  int node = 0;                         ///< My node.
  int local_rank = 0;                   ///< My place in nodes[node].
  int given_local_rank = -1;            ///< Wiring::given_local_rank.
  std::vector<std::string> hosts;       ///< [size] host name of each rank, for messages.

  /// My rank in the job.
  int world_rank() const {
    return world_ranks.empty() ? rank : world_ranks[static_cast<std::size_t>(rank)];
  }
  const std::string& host() const { return hosts[static_cast<std::size_t>(rank)]; }
  int local_size() const { return static_cast<int>(nodes[static_cast<std::size_t>(node)].size()); }
  int node_count() const { return static_cast<int>(nodes.size()); }
};

}  // namespace hvd
