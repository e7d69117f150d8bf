// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/cell_ring.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace hvd {

RingWriter::RingWriter(std::span<Cell> cells, std::vector<const RingCursor*> readers)
    : cells_(cells), readers_(std::move(readers)), free_until_(cells.size()) {
  HVD_CHECK(std::has_single_bit(cells.size()) && cells.size() >= 4);
}

void RingWriter::write(Bytes message) {
  unsent_.push_back(std::move(message));
  flush();
}

bool RingWriter::flush() {
  bool wrote = false;
  while (!unsent_.empty() && has_room()) {
    write_cell();
    wrote = true;
  }
  return wrote;
}

bool RingWriter::has_room() {
  if (next_ < free_until_) return true;
  std::uint64_t slowest = next_;
  for (const RingCursor* reader : readers_) {
    // seq_cst: pairs with the stores in RingReader::read(), the cell has been copied out; and comes
    // after the store of my sleep word, if I am about to sleep.
    slowest = std::min(slowest, reader->read.load());
  }
  free_until_ = slowest + cells_.size();
  return next_ < free_until_;
}

void RingWriter::write_cell() {
  const Bytes& message = unsent_.front();
  Cell& cell = cells_[next_ & (cells_.size() - 1)];
  const std::size_t length = std::min(message.size() - offset_, Cell::kPayloadBytes);
  std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(offset_), length, cell.payload.begin());
  offset_ += length;
  cell.length = static_cast<std::uint16_t>(length);
  cell.continues = offset_ < message.size() ? 1 : 0;
  ++next_;
  // seq_cst: publishes the cell, and comes before the look at a reader's sleep word.
  cell.sequence.store(static_cast<std::uint32_t>(next_));
  if (next_ % (cells_.size() / 4) == 0) filled_quarter_ = true;
  if (offset_ == message.size()) {
    unsent_.pop_front();
    offset_ = 0;
  }
}

std::optional<std::span<const std::byte>> RingReader::read() {
  if (!inside_) message_.clear();
  for (;;) {
    const Cell& cell = cells_[next_ & (cells_.size() - 1)];
    // Pairs with the store in RingWriter::write_cell(), which publishes the rest of the cell.
    // seq_cst: it may be the last look before a sleep.
    if (cell.sequence.load() != static_cast<std::uint32_t>(next_ + 1)) return std::nullopt;
    const auto length = std::min<std::size_t>(cell.length, Cell::kPayloadBytes);
    inside_ = cell.continues != 0;
    message_.insert(message_.end(), cell.payload.begin(),
                    cell.payload.begin() + static_cast<std::ptrdiff_t>(length));
    ++next_;
    if (next_ % (cells_.size() / 4) == 0) {
      // seq_cst: frees the cells, and comes before the look at the writer's sleep word.
      cursor_->read.store(next_);
      made_room_ = true;
    } else {
      // release: pairs with the load in RingWriter::has_room(); the cell may be written again.
      cursor_->read.store(next_, std::memory_order_release);
    }
    if (!inside_) return std::span<const std::byte>(message_);
  }
}

}  // namespace hvd
