// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/board.h"

#include "base/check.h"

namespace hvd {

std::size_t Board::bytes(int local_size) {
  return static_cast<std::size_t>(local_size) * sizeof(Member) + kDownCells * sizeof(Cell);
}

Board Board::map(std::span<std::byte> memory, int local_size) {
  HVD_CHECK(memory.size() >= bytes(local_size));
  const auto count = static_cast<std::size_t>(local_size);
  auto* members = reinterpret_cast<Member*>(memory.data());
  auto* down = reinterpret_cast<Cell*>(memory.data() + count * sizeof(Member));
  return {{members, count}, {down, kDownCells}};
}

void ReadyBits::toggle(std::uint32_t id) {
  auto& word = member_->bits[id / 64];
  // relaxed: only this rank writes the word; the store of the generation publishes it.
  word.store(word.load(std::memory_order_relaxed) ^ (std::uint64_t{1} << (id % 64)),
             std::memory_order_relaxed);
  const auto generation = member_->generation.load(std::memory_order_relaxed);
  // seq_cst: publishes the bit, and comes before the look at the leader's sleep word.
  member_->generation.store(generation + 1);
}

}  // namespace hvd
