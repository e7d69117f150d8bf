// SPDX-License-Identifier: Apache-2.0
#include "collective/moving_counts.h"

#include <algorithm>
#include <numeric>

namespace hvd {

MovingCounts::MovingCounts(const Batch& batch, const Communicator& communicator)
    : segments_(batch.segments.size()),
      size_(static_cast<std::size_t>(communicator.size)),
      splits_(kind_of(batch.operation).has_splits) {
  const auto root = root_of(batch.operation);
  if (root && !splits_) root_ = static_cast<std::size_t>(*root);
  counts_.resize(row_length() * size_);
  std::size_t* mine = row(static_cast<std::size_t>(communicator.rank));
  if (splits_) {
    std::copy(batch.splits.begin(), batch.splits.end(), mine);
    return;
  }
  for (std::size_t i = 0; i < segments_; ++i) mine[i] = batch.segments[i].count;
}

std::size_t MovingCounts::sent(std::size_t source, std::size_t segment) const {
  if (!splits_) return row(source)[segment];
  const std::size_t* first = row(source) + segment * size_;
  return std::accumulate(first, first + size_, std::size_t{0});
}

std::size_t MovingCounts::sent_before(std::size_t source, std::size_t segment,
                                      std::size_t destination) const {
  if (!splits_) return root_ && *root_ < destination ? row(source)[segment] : 0;
  const std::size_t* first = row(source) + segment * size_;
  return std::accumulate(first, first + destination, std::size_t{0});
}

}  // namespace hvd
