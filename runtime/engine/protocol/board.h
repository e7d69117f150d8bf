// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/protocol/cell_ring.h"

namespace hvd {

/// Where the ranks of a node negotiate: ready bits and announcements upwards, the log downwards.
///
/// A rank toggles the bit of an id when it has submitted it; it does so again only after the log
/// told that the former use was consumed, so the leader never misses one. Layout is the same for
/// all ranks of a node; the memory is zeroed before first use.
struct Board {
  static constexpr std::size_t kBitWords = 63;
  /// Names that may have an id at one time (see coordinator_ids.cc); others are announced in full
  /// each time.
  static constexpr std::uint32_t kMaxIds = kBitWords * 64;
  static constexpr std::size_t kUpCells = 256;
  static constexpr std::size_t kDownCells = 4096;
  static constexpr std::size_t kFarewellBytes = 508;

  struct alignas(64) Member {
    /// Grows with each toggle. It shares its line with the bits of the first 448 ids: one line
    /// transfer tells the leader of all of them.
    std::atomic<std::uint64_t> generation;
    std::array<std::atomic<std::uint64_t>, kBitWords> bits;
    RingCursor up_cursor;    ///< The leader's place in `up`.
    RingCursor down_cursor;  ///< This member's place in `down`.
    std::array<Cell, kUpCells> up;
    /// Why the rank ended, for those who see its process go: kFarewellBytes at most.
    std::atomic<std::uint32_t> farewell_length;
    std::array<char, kFarewellBytes> farewell;
  };

  std::span<Member> members;  ///< By local rank.
  std::span<Cell> down;

  static std::size_t bytes(int local_size);
  static Board map(std::span<std::byte> memory, int local_size);
};

/// A member's hand on its bits. One thread at a time.
class ReadyBits {
 public:
  explicit ReadyBits(Board::Member* member = nullptr) : member_(member) {}
  void toggle(std::uint32_t id);

 private:
  Board::Member* member_;
};

/// The leader's eye on one member's bits. One thread at a time.
class ReadyBitsReader {
 public:
  explicit ReadyBitsReader(const Board::Member* member = nullptr) : member_(member) {}

  /// Calls found(id) for every bit toggled since the last call, in ascending order.
  /// Returns false when nothing changed.
  template <typename Found>
  bool poll(Found&& found) {
    // Pairs with the store in ReadyBits::toggle(): the bits are at least that new. seq_cst: it may
    // be the last look before a sleep.
    const auto generation = member_->generation.load();
    if (generation == generation_) return false;
    generation_ = generation;
    for (std::size_t i = 0; i < Board::kBitWords; ++i) {
      // relaxed: ordered by the acquire above; a newer bit does no harm, its generation follows.
      const auto word = member_->bits[i].load(std::memory_order_relaxed);
      auto changed = word ^ seen_[i];
      seen_[i] = word;
      for (; changed != 0; changed &= changed - 1) {
        found(static_cast<std::uint32_t>(i * 64) +
              static_cast<std::uint32_t>(std::countr_zero(changed)));
      }
    }
    return true;
  }

 private:
  const Board::Member* member_;
  std::uint64_t generation_ = 0;
  std::array<std::uint64_t, Board::kBitWords> seen_{};
};

}  // namespace hvd
