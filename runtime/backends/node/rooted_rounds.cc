// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/node/rooted.h"
#include "base/rounding.h"

namespace hvd {

RootedRounds::RootedRounds(const std::vector<std::size_t>& bytes) : bytes_(bytes) {
  first_.reserve(bytes.size() + 1);
  first_.push_back(0);
  for (const std::size_t of_root : bytes) {
    first_.push_back(first_.back() + divide_up(of_root, NodePlane::kSlotBytes));
  }
}

RootedRounds::Round RootedRounds::at(std::uint64_t round) const {
  // The last root whose first round is not beyond: roots without bytes have no round of their own.
  const auto after = std::upper_bound(first_.begin(), first_.end(), round);
  const auto root = static_cast<std::size_t>(after - first_.begin()) - 1;
  const std::size_t offset = (round - first_[root]) * NodePlane::kSlotBytes;
  return {static_cast<int>(root), offset, std::min(NodePlane::kSlotBytes, bytes_[root] - offset)};
}

}  // namespace hvd
