// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace hvd {

/// One cache line of a ring: a message of up to kPayloadBytes arrives in a single line transfer.
struct alignas(64) Cell {
  static constexpr std::size_t kPayloadBytes = 56;
  /// 1 + the index of the cell in the endless stream of cells; written last.
  std::atomic<std::uint32_t> sequence;
  std::uint16_t length;
  std::uint16_t continues;  ///< 1: the message goes on in the next cell.
  std::array<std::byte, kPayloadBytes> payload;
};
static_assert(sizeof(Cell) == 64);

/// How far one reader has come, in cells; a line of its own.
struct alignas(64) RingCursor {
  /// Of a reader that reads no more.
  static constexpr std::uint64_t kGone = ~std::uint64_t{0};
  std::atomic<std::uint64_t> read;
};

/// Messages from one writer to some readers through shared memory, in order, without locks.
/// The memory is zeroed before first use. The number of cells is a power of two.

/// The writing side. One thread at a time.
class RingWriter {
 public:
  RingWriter() = default;
  /// `readers`: the cursors of everyone who must have read a cell before it is used again.
  RingWriter(std::span<Cell> cells, std::vector<const RingCursor*> readers);

  /// Queues the message, of any length, and writes what there is room for now.
  void write(Bytes message);
  /// Writes more of what is queued; true when it wrote something.
  bool flush();
  bool has_unsent() const { return !unsent_.empty(); }
  /// True once after each quarter of the ring that was written: a reader that nothing concerns may
  /// sleep without asking to be woken, and must read before the ring is full.
  bool take_filled_quarter() { return std::exchange(filled_quarter_, false); }

 private:
  bool has_room();
  void write_cell();

  std::span<Cell> cells_;
  std::vector<const RingCursor*> readers_;
  std::uint64_t next_ = 0;
  std::uint64_t free_until_ = 0;  ///< Cells before this index may be written without a look.
  std::deque<Bytes> unsent_;
  std::size_t offset_ = 0;  ///< Bytes of the first unsent message that are written.
  bool filled_quarter_ = false;
};

/// One reading side. One thread at a time.
class RingReader {
 public:
  RingReader() = default;
  RingReader(std::span<const Cell> cells, RingCursor* cursor) : cells_(cells), cursor_(cursor) {}

  /// The next whole message, or nothing yet. The span is valid until the next call.
  std::optional<std::span<const std::byte>> read();
  /// True once after each quarter of the ring that was read: a writer that found the ring full may
  /// sleep, and nothing else would tell it of the room.
  bool take_made_room() { return std::exchange(made_room_, false); }

 private:
  std::span<const Cell> cells_;
  RingCursor* cursor_ = nullptr;
  std::uint64_t next_ = 0;
  bool inside_ = false;  ///< message_ holds the beginning of a message.
  bool made_room_ = false;
  Bytes message_;
};

}  // namespace hvd
