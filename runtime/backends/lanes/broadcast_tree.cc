// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/broadcast_tree.h"

#include <bit>

#include "base/check.h"
#include "collective/network_cost.h"

namespace hvd {
namespace {

/// A node's place in the count from the root's.
int place_of(int nodes, int root, int node) { return (node - root + nodes) % nodes; }

/// The node of which the binomial tree makes `place` a child: without its lowest bit.
int binomial_parent(int place) { return place & (place - 1); }

int levels_of(int nodes) { return std::bit_width(static_cast<unsigned>(nodes - 1)); }

/// A round on its way to the last node, and at the busiest node.
struct RoundCost {
  long long steps = 0;
  long long messages_on_the_way = 0;
  long long messages = 0;
};

RoundCost cost_of(BroadcastShape shape, int nodes) {
  switch (shape) {
    case BroadcastShape::kFlat:
      return {1, nodes - 1, nodes - 1};
    case BroadcastShape::kBinomial:
      return {levels_of(nodes), levels_of(nodes), levels_of(nodes)};
    case BroadcastShape::kChain:
      return {nodes - 1, nodes - 1, 1};
  }
  return {};
}

/// The first round takes the whole way; the others follow as fast as the busiest node sends them.
long long estimate_ns(BroadcastShape shape, int nodes, std::uint64_t rounds,
                      std::size_t round_bytes) {
  const long long message = kMessageNs + static_cast<long long>(round_bytes) * kByteNs;
  const RoundCost cost = cost_of(shape, nodes);
  return cost.steps * kStepNs + cost.messages_on_the_way * message +
         static_cast<long long>(rounds - 1) * cost.messages * message;
}

}  // namespace

BroadcastShape select_broadcast(int nodes, std::uint64_t rounds, std::size_t round_bytes) {
  BroadcastShape best = BroadcastShape::kFlat;
  if (nodes <= 2 || rounds == 0) return best;
  for (const BroadcastShape shape : {BroadcastShape::kBinomial, BroadcastShape::kChain}) {
    if (estimate_ns(shape, nodes, rounds, round_bytes) <
        estimate_ns(best, nodes, rounds, round_bytes)) {
      best = shape;
    }
  }
  return best;
}

int broadcast_parent(BroadcastShape shape, int nodes, int root, int node) {
  HVD_CHECK(node != root);
  const int place = place_of(nodes, root, node);
  int parent = 0;
  if (shape == BroadcastShape::kBinomial) parent = binomial_parent(place);
  if (shape == BroadcastShape::kChain) parent = place - 1;
  return (root + parent) % nodes;
}

std::vector<int> broadcast_children(BroadcastShape shape, int nodes, int root, int node) {
  const int place = place_of(nodes, root, node);
  std::vector<int> children;
  const auto add = [&](int child) {
    if (child < nodes) children.push_back((root + child) % nodes);
  };
  switch (shape) {
    case BroadcastShape::kFlat:
      for (int child = 1; place == 0 && child < nodes; ++child) add(child);
      break;
    case BroadcastShape::kBinomial: {
      // The child with the most below it first.
      const int low = place == 0 ? 1 << levels_of(nodes) : place & -place;
      for (int bit = low >> 1; bit > 0; bit >>= 1) add(place + bit);
      break;
    }
    case BroadcastShape::kChain:
      add(place + 1);
      break;
  }
  return children;
}

}  // namespace hvd
