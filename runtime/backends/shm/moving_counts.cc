// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/moving_counts.h"

#include <algorithm>
#include <numeric>

namespace hvd {

MovingCounts::MovingCounts(const Batch& batch, const Communicator& communicator)
    : segments_(batch.segments.size()),
      size_(static_cast<std::size_t>(communicator.size)),
      shared_(std::holds_alternative<Allgather>(batch.operation)),
      counts_(segments_ * size_ * size_) {
  std::size_t* mine = row(static_cast<std::size_t>(communicator.rank));
  if (has_splits(batch.operation)) {
    std::copy(batch.splits.begin(), batch.splits.end(), mine);
    return;
  }
  const auto root = root_of(batch.operation);
  for (std::size_t i = 0; i < segments_; ++i) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const bool due = !root || static_cast<std::size_t>(*root) == rank;
      mine[i * size_ + rank] = due ? batch.segments[i].count : 0;
    }
  }
}

std::size_t MovingCounts::sent(std::size_t source, std::size_t segment) const {
  const std::size_t* first = row(source) + segment * size_;
  return shared_ ? *first : std::accumulate(first, first + size_, std::size_t{0});
}

std::size_t MovingCounts::sent_before(std::size_t source, std::size_t segment,
                                      std::size_t destination) const {
  const std::size_t* first = row(source) + segment * size_;
  return shared_ ? 0 : std::accumulate(first, first + destination, std::size_t{0});
}

}  // namespace hvd
