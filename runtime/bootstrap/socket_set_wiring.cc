// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/socket_set_wiring.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/descriptor_limit.h"
#include "bootstrap/wiring_shape.h"
#include "transport/mesh.h"

namespace hvd {
namespace {

/// Where a member listens.
struct Place {
  std::string abstract_name;
  std::uint16_t port = 0;
};

std::string encode(const Place& place) {
  return format_text("{} {}", place.port, place.abstract_name);
}

Result<Place> decode_place(const std::string& text, int rank) {
  const auto space = text.find(' ');
  long port = 0;
  for (const char c : text.substr(0, space)) port = c < '0' || c > '9' ? -1 : port * 10 + c - '0';
  if (space == std::string::npos || port < 1 || port > 65535) {
    return error(Code::kInternal, "rank {} does not say where it listens", rank);
  }
  return Place{text.substr(space + 1), static_cast<std::uint16_t>(port)};
}

}  // namespace

Result<std::string> SocketSetWiring::offer() {
  HVD_TRY_ASSIGN(AbstractListener local, AbstractListener::open());
  HVD_TRY_ASSIGN(Listener listener, Listener::open());
  Lock lock(mutex_);
  if (interrupted_) return error(Code::kPeerLost, "a rank of the job is lost");
  offer_ = std::make_shared<Offer>(Offer{std::move(local), std::move(listener)});
  return encode(Place{offer_->local.name(), offer_->listener.port()});
}

void SocketSetWiring::withdraw() {
  Lock lock(mutex_);
  offer_ = nullptr;
}

void SocketSetWiring::interrupt() {
  Lock lock(mutex_);
  interrupted_ = true;
  if (offer_ == nullptr) return;
  offer_->local.interrupt();
  offer_->listener.interrupt();
}

Result<SetLinks> SocketSetWiring::connect(const Plan& plan) {
  std::shared_ptr<const Offer> offer;
  {
    Lock lock(mutex_);
    offer = offer_;
  }
  if (offer == nullptr) return error(Code::kInternal, "rank {} connects without an offer", rank_);
  auto links = connect_through(*offer, plan);
  Lock lock(mutex_);
  offer_ = nullptr;
  if (!links.is_ok() && interrupted_) return error(Code::kPeerLost, "a rank of the job is lost");
  return links;
}

Result<SetLinks> SocketSetWiring::connect_through(const Offer& offer, const Plan& plan) const {
  SetLinks links;
  const auto mine = std::find_if(plan.nodes.begin(), plan.nodes.end(), [&](const auto& ranks) {
    return std::binary_search(ranks.begin(), ranks.end(), rank_);
  });
  HVD_TRY(share_memory(offer, plan, *mine, links));
  HVD_TRY(link_nodes(offer, plan, static_cast<std::size_t>(mine - plan.nodes.begin()), links));
  return links;
}

Status SocketSetWiring::share_memory(const Offer& offer, const Plan& plan,
                                     const std::vector<int>& ranks, SetLinks& links) const {
  const auto leader = static_cast<std::size_t>(ranks.front());
  HVD_TRY_ASSIGN(const Place place, decode_place(plan.offers[leader], ranks.front()));
  HVD_TRY_ASSIGN(NodeGroup group,
                 exchange_node({.ranks = ranks,
                                .rank = rank_,
                                .leader_name = place.abstract_name,
                                .listener = &offer.local,
                                .memory_bytes = plan.memory_bytes(static_cast<int>(ranks.size())),
                                .key = key_,
                                .deadline = plan.deadline}));
  // The bells and the pidfds are those of the job; only the memory is new.
  links.memory = group.memory;
  links.owner = std::move(group.owner);
  return Status::ok();
}

Status SocketSetWiring::link_nodes(const Offer& offer, const Plan& plan, std::size_t my_node,
                                   SetLinks& links) const {
  const WiringShape shape(plan.nodes);
  links.lanes = shape.lanes();
  links.sockets = sockets_per_lane(records_, links.lanes);
  const auto sockets = static_cast<std::size_t>(links.sockets);
  links.lane.resize(plan.nodes.size() * sockets);
  HVD_TRY(reserve_descriptors(shape.descriptors(static_cast<int>(my_node), links.sockets)));
  const auto& mine = plan.nodes[my_node];
  const auto lane = static_cast<int>(std::find(mine.begin(), mine.end(), rank_) - mine.begin());
  if (lane >= links.lanes) return Status::ok();
  std::vector<MeshPeer> peers;
  std::map<int, std::size_t> node_of_rank;
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    if (node == my_node) continue;
    const int peer = shape.rank_at(static_cast<int>(node), lane);
    const auto index = static_cast<std::size_t>(peer);
    HVD_TRY_ASSIGN(const Place place, decode_place(plan.offers[index], peer));
    for (int socket = 0; socket < links.sockets; ++socket) {
      const int rail = lane * links.sockets + socket;
      HVD_TRY_ASSIGN(auto addresses, addresses_between(records_[static_cast<std::size_t>(rank_)],
                                                       records_[index], place.port, rail));
      peers.push_back({.id = {.purpose = LinkPurpose::kLane, .peer_rank = peer, .socket = socket},
                       .host = records_[index].label(),
                       .addresses = std::move(addresses)});
    }
    node_of_rank[peer] = node;
  }
  HVD_TRY_ASSIGN(auto connected, build_mesh(rank_, offer.listener, key_, peers, plan.deadline));
  for (auto& [id, link] : connected) {
    const std::size_t first = node_of_rank[id.peer_rank] * sockets;
    links.lane[first + static_cast<std::size_t>(id.socket)] = std::move(link);
  }
  return Status::ok();
}

}  // namespace hvd
