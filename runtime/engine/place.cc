// SPDX-License-Identifier: Apache-2.0
#include "engine/place.h"

#include <algorithm>
#include <map>

#include "bootstrap/wiring_shape.h"

namespace hvd {
namespace {

/// The ranks of `node` and of the nodes below it in the tree of leaders.
RankSet ranks_below(const Communicator& world, int node) {
  RankSet below(world.size);
  for (int candidate = node; candidate < world.node_count(); ++candidate) {
    int ancestor = candidate;
    while (ancestor > node) ancestor = WiringShape::parent_of(ancestor);
    if (ancestor != node) continue;
    for (const int rank : world.nodes[static_cast<std::size_t>(candidate)]) below.add(rank);
  }
  return below;
}

}  // namespace

Communicator world_of(const Wiring& wiring) {
  Communicator world;
  world.rank = wiring.rank;
  world.size = wiring.size;
  std::map<int, std::vector<int>> nodes;
  for (const PeerInfo& peer : wiring.peers) {
    world.world_ranks.push_back(peer.rank);
    world.hosts.push_back(peer.host);
    nodes[peer.node].push_back(peer.rank);
  }
  for (auto& [node, ranks] : nodes) {
    std::sort(ranks.begin(), ranks.end());
    world.nodes.push_back(std::move(ranks));
  }
  const PeerInfo& me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  world.node = me.node;
  world.local_rank = me.local_rank;
  world.given_local_rank = wiring.given_local_rank;
  return world;
}

Negotiation::Place place_of(const Communicator& world, const Wiring& wiring) {
  Negotiation::Place place;
  place.rank = world.rank;
  place.size = world.size;
  place.local_rank = world.local_rank;
  place.node_ranks = world.nodes[static_cast<std::size_t>(world.node)];
  place.hosts = world.hosts;
  for (const PeerInfo& peer : wiring.peers) place.pids.push_back(peer.pid);
  for (const auto& child : wiring.children) {
    const auto& peer = wiring.peers[static_cast<std::size_t>(child->peer_rank())];
    place.child_subtrees.push_back(ranks_below(world, peer.node));
  }
  return place;
}

int ranks_on_machine(const std::vector<PeerInfo>& peers, int rank) {
  const auto machine = [](const PeerInfo& peer) {
    return peer.host.substr(0, peer.host.find('/'));
  };
  const std::string mine = machine(peers[static_cast<std::size_t>(rank)]);
  return static_cast<int>(std::count_if(
      peers.begin(), peers.end(), [&](const PeerInfo& peer) { return machine(peer) == mine; }));
}

}  // namespace hvd
