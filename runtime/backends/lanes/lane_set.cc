// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_set.h"

#include <utility>

namespace hvd {

LaneSet::LaneSet(const BackendContext& context, std::unique_ptr<LaneLinks> links)
    : communicator_(context.communicator),
      lanes_(context.lanes),
      links_(std::move(links)),
      places_(static_cast<std::size_t>(context.communicator.size)),
      rounds_(std::make_unique<LaneRound[]>(NodePlane::kSlots)) {
  for (std::size_t node = 0; node < communicator_.nodes.size(); ++node) {
    const std::vector<int>& ranks = communicator_.nodes[node];
    for (std::size_t local_rank = 0; local_rank < ranks.size(); ++local_rank) {
      places_[static_cast<std::size_t>(ranks[local_rank])] = {static_cast<int>(node),
                                                              static_cast<int>(local_rank)};
    }
  }
}

LaneSet::~LaneSet() {
  // Leaked: the buffers of the rounds are lent to something that outlives us.
  if (keeps_memory()) static_cast<void>(rounds_.release());
}

}  // namespace hvd
