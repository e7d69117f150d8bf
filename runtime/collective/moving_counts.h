// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "collective/batch.h"
#include "collective/communicator.h"

namespace hvd {

/// How many elements each rank sends to each rank, segment by segment.
/// Filled rank by rank, then immutable.
class MovingCounts {
 public:
  /// Knows the row of this rank, from its batch.
  MovingCounts(const Batch& batch, const Communicator& communicator);

  /// What one rank tells the others: where it splits its rows [segment * size + destination], else
  /// [segment].
  std::size_t row_length() const { return splits_ ? segments_ * size_ : segments_; }
  std::size_t* row(std::size_t rank) { return counts_.data() + rank * row_length(); }
  const std::size_t* row(std::size_t rank) const { return counts_.data() + rank * row_length(); }

  std::size_t at(std::size_t source, std::size_t segment, std::size_t destination) const {
    if (splits_) return row(source)[segment * size_ + destination];
    return !root_ || *root_ == destination ? row(source)[segment] : 0;
  }
  /// Elements of `segment` that `source` gives away. All that an allgather sends to one rank it
  /// sends to all: counted once.
  std::size_t sent(std::size_t source, std::size_t segment) const;
  /// Elements in front of those for `destination`, among the ones that sent() counts.
  std::size_t sent_before(std::size_t source, std::size_t segment, std::size_t destination) const;
  bool is_shared() const { return !splits_ && !root_; }
  std::size_t segments() const { return segments_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t segments_;
  std::size_t size_;
  bool splits_;
  std::optional<std::size_t> root_;  ///< Of a gather.
  std::vector<std::size_t> counts_;
};

}  // namespace hvd
