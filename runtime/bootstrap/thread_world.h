// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"
#include "bootstrap/wiring.h"

namespace hvd {

struct ThreadWorldOptions {
  int size = 1;
  /// Ranks of each node, in rank order; their sum is `size`. Empty: all on one node.
  std::vector<int> node_sizes = {};
  /// Bytes of NodeGroup::memory for a node of `local_size` ranks.
  std::function<std::size_t(int local_size)> memory_bytes = [](int) { return std::size_t{0}; };
  std::size_t arena_bytes = 0;  ///< Of each rank's NodeGroup::arena.
  int sockets = 1;              ///< Wiring::sockets.
};

/// Wires ranks that are threads of this process, for tests and notebooks; by rank.
///
/// The ranks of a node share one mapping (a race checker sees one address per byte), have real
/// eventfds, and nodes are joined by socket pairs, so everything above runs as between processes.
/// Thread-safe.
Result<std::vector<Wiring>> wire_threads(const ThreadWorldOptions& options);

}  // namespace hvd
