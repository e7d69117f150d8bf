// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd {

/// By which ways the bytes of a root get to all nodes.
enum class BroadcastShape {
  kFlat,      ///< The root's node sends to each: one step, and all bytes leave there.
  kBinomial,  ///< Who has them sends them on: few steps.
  kChain,     ///< Each sends them to the next: every node sends them once, while more arrive.
};

/// The shape that takes least for so many rounds of `round_bytes` (what one lane sends of it), by
/// steps, messages and bytes of the busiest node as in select_allreduce(). Pure.
BroadcastShape select_broadcast(int nodes, std::uint64_t rounds, std::size_t round_bytes);

/// Who sends to whom. Nodes count on from that of the root. Pure.
int broadcast_parent(BroadcastShape shape, int nodes, int root, int node);
/// In the order in which they are sent to.
std::vector<int> broadcast_children(BroadcastShape shape, int nodes, int root, int node);

}  // namespace hvd
