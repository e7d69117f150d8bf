// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/node/node_plane.h"

namespace hvd {

/// Cuts what every rank sends to every other rank into rounds in which all of them send at once.
///
/// Each pair moves in each round the same part of its bytes, so that all end together, and the
/// pairs that share a slot fill it. Every rank computes the same from the same numbers. What a rank
/// sends to itself has no rounds.
class ExchangeRounds {
 public:
  /// `bytes` [source * size + destination]. Pieces begin at multiples of `grain`, a power of two up
  /// to 64; of 64 where that wastes little. At most `most` bytes of a slot are used.
  ExchangeRounds(std::vector<std::size_t> bytes, std::size_t size, std::size_t grain,
                 std::size_t most = NodePlane::kSlotBytes);

  /// Makes the pieces of all these sources for all these destinations fit into one slot in every
  /// round; false when there are more pairs than a slot can ever hold.
  [[nodiscard]] bool share_slot(std::span<const int> sources, std::span<const int> destinations);

  std::uint64_t count() const { return rounds_; }

  /// A part of what one rank sends to another.
  struct Piece {
    std::size_t offset;  ///< In the bytes of the pair.
    std::size_t bytes;
  };
  Piece at(std::uint64_t round, int source, int destination) const;
  /// Bytes from one to many in `round`: their pieces lie side by side.
  std::size_t bytes_to(std::uint64_t round, int source, std::span<const int> destinations) const;

 private:
  std::size_t total(int source, int destination) const {
    return source == destination ? 0
                                 : bytes_[static_cast<std::size_t>(source) * size_ +
                                          static_cast<std::size_t>(destination)];
  }

  std::vector<std::size_t> bytes_;
  std::size_t size_;
  std::size_t grain_;
  std::size_t most_;
  std::size_t align_ = 64;
  std::uint64_t rounds_ = 0;
};

}  // namespace hvd
