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

}  // namespace hvd
