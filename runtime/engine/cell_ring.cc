// SPDX-License-Identifier: Apache-2.0
#include "engine/cell_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace hvd {

RingWriter::RingWriter(std::span<Cell> cells, std::vector<const RingCursor*> readers)
    : cells_(cells), readers_(std::move(readers)), free_until_(cells.size()) {
  HVD_CHECK(std::has_single_bit(cells.size()));
}

bool RingWriter::has_room(std::uint64_t cells) {
  if (next_ + cells <= free_until_) return true;
  std::uint64_t slowest = next_;
  for (const RingCursor* reader : readers_) {
    // acquire: pairs with the release in RingReader::read(); its cell has been copied out.
    slowest = std::min(slowest, reader->read.load(std::memory_order_acquire));
  }
  free_until_ = slowest + cells_.size();
  return next_ + cells <= free_until_;
}

bool RingWriter::try_write(std::span<const std::byte> message) {
  HVD_CHECK(message.size() <= max_message_bytes());
  const std::uint64_t count =
      std::max<std::uint64_t>(1, (message.size() + Cell::kPayloadBytes - 1) / Cell::kPayloadBytes);
  if (!has_room(count)) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    Cell& cell = cells_[(next_ + i) & (cells_.size() - 1)];
    const auto part = message.first(std::min(message.size(), Cell::kPayloadBytes));
    message = message.subspan(part.size());
    cell.length = static_cast<std::uint16_t>(part.size());
    cell.continues = i + 1 < count ? 1 : 0;
    std::copy(part.begin(), part.end(), cell.payload.begin());
    // seq_cst: publishes the cell, and comes before the look at a reader's sleep word.
    cell.sequence.store(static_cast<std::uint32_t>(next_ + i + 1));
  }
  next_ += count;
  return true;
}

bool RingReader::is_written(std::uint64_t index) const {
  // acquire: pairs with the store in RingWriter::try_write(); publishes the rest of the cell.
  return cell(index).sequence.load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(index + 1);
}

std::optional<std::span<const std::byte>> RingReader::read() {
  if (!is_written(next_)) return std::nullopt;
  std::uint64_t end = next_;
  while (cell(end).continues != 0) {
    if (!is_written(end + 1)) return std::nullopt;
    ++end;
  }
  message_.clear();
  for (; next_ <= end; ++next_) {
    const auto& payload = cell(next_).payload;
    const auto length = std::min<std::size_t>(cell(next_).length, payload.size());
    message_.insert(message_.end(), payload.begin(),
                    payload.begin() + static_cast<std::ptrdiff_t>(length));
  }
  // release: pairs with the acquire in RingWriter::has_room(); the cells may be written again.
  cursor_->read.store(next_, std::memory_order_release);
  return std::span<const std::byte>(message_);
}

}  // namespace hvd
