// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/wiring_shape.h"

#include <algorithm>
#include <utility>

namespace hvd {

WiringShape::WiringShape(std::vector<std::vector<int>> node_ranks)
    : node_ranks_(std::move(node_ranks)) {
  if (nodes() < 2) return;
  lanes_ = local_size(0);
  for (int node = 1; node < nodes(); ++node) lanes_ = std::min(lanes_, local_size(node));
}

std::vector<int> WiringShape::children_of(int node) const {
  std::vector<int> children;
  for (int i = 1; i <= kFanOut; ++i) {
    const int child = node * kFanOut + i;
    if (child < nodes()) children.push_back(child);
  }
  return children;
}

std::size_t WiringShape::descriptors(int node, int sockets) const {
  constexpr int kEngine = 64;
  constexpr int kPerLocalRank = 3;  // socket, bell, pidfd
  const int count =
      kPerLocalRank * local_size(node) + (nodes() - 1) * sockets + kFanOut + 1 + kEngine;
  return static_cast<std::size_t>(count);
}

}  // namespace hvd
