// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/lane_set.h"

namespace hvd {

LaneSet::LaneSet(const BackendContext& context)
    : communicator_(context.communicator),
      lanes_(context.lanes),
      link_of_node_(context.lane.size(), -1),
      places_(static_cast<std::size_t>(context.communicator.size)),
      rounds_(NodePlane::kSlots) {
  for (std::size_t node = 0; node < context.lane.size(); ++node) {
    if (context.lane[node] == nullptr) continue;
    link_of_node_[node] = static_cast<int>(links_.size());
    links_.emplace_back(*context.lane[node], static_cast<int>(node));
  }
  for (std::size_t node = 0; node < communicator_.nodes.size(); ++node) {
    const std::vector<int>& ranks = communicator_.nodes[node];
    for (std::size_t local_rank = 0; local_rank < ranks.size(); ++local_rank) {
      places_[static_cast<std::size_t>(ranks[local_rank])] = {static_cast<int>(node),
                                                              static_cast<int>(local_rank)};
    }
  }
}

Result<bool> LaneSet::pump(FrameSink& sink) {
  bool moved = false;
  for (FrameLink& link : links_) {
    HVD_TRY_ASSIGN(const bool sent, link.send());
    HVD_TRY_ASSIGN(const bool received, link.receive(sink));
    moved = moved || sent || received;
  }
  return moved;
}

void LaneSet::queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
                    std::size_t* unsent) {
  const int link = link_of_node_[static_cast<std::size_t>(node)];
  links_[static_cast<std::size_t>(link)].queue(header, payload, unsent);
}

void LaneSet::forget() {
  for (FrameLink& link : links_) link.forget();
}

}  // namespace hvd
