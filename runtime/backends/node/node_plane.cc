// SPDX-License-Identifier: Apache-2.0
#include "backends/node/node_plane.h"

#include <sched.h>

#include "base/check.h"

namespace hvd {

/// A sequence number and the bytes it announces: up to 48 of them arrive with its cache line.
struct NodePlane::SmallSlot {
  alignas(64) std::atomic<std::uint64_t> number;
  std::uint64_t unused;  // so that the bytes are aligned for vectors
  std::byte bytes[kSmallBytes];
};

namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

// Per rank: one page of counters, two small slots, the stream slots.
std::size_t NodePlane::memory_bytes(int local_size) {
  static_assert(sizeof(SmallSlot) == kPage && sizeof(CounterLine) * kStages <= kPage);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  return static_cast<std::size_t>(local_size) * (3 * kPage + kSlots * kSlotBytes);
}

NodePlane::NodePlane(std::span<std::byte> memory, int local_rank, int local_size,
                     const Doorbell* doorbell)
    : memory_(memory.data()),
      local_rank_(local_rank),
      local_size_(local_size),
      doorbell_(doorbell),
      seen_(static_cast<std::size_t>(local_size)) {
  HVD_CHECK(memory.size() >= memory_bytes(local_size));
}

// The segment is born zeroed, which is the initial value of every counter: atomics of lock-free
// integers need no constructor to run.
NodePlane::CounterLine* NodePlane::counter(int rank, Stage stage) const {
  return reinterpret_cast<CounterLine*>(memory_ + static_cast<std::size_t>(rank) * kPage) + stage;
}

NodePlane::SmallSlot* NodePlane::small_slot(int rank, std::uint64_t number) const {
  const auto ranks = static_cast<std::size_t>(local_size_);
  const std::size_t page = ranks + 2 * static_cast<std::size_t>(rank) + number % 2;
  return reinterpret_cast<SmallSlot*>(memory_ + page * kPage);
}

std::byte* NodePlane::slot(int rank, std::uint64_t round) const {
  const std::size_t index = static_cast<std::size_t>(rank) * kSlots + round % kSlots;
  return memory_ + static_cast<std::size_t>(local_size_) * 3 * kPage + index * kSlotBytes;
}

std::byte* NodePlane::small(int rank, std::uint64_t number) const {
  return small_slot(rank, number)->bytes;
}

std::uint64_t NodePlane::load(int rank, Stage stage) const {
  // Pairs with the store in publish(): the slots that the counter announces are visible, or, for
  // kOut, the peer's reads of them are over. seq_cst: it may be the last look before a sleep.
  return counter(rank, stage)->value.load();
}

void NodePlane::publish(Stage stage, std::uint64_t round) {
  seen_[static_cast<std::size_t>(local_rank_)][stage] = round;
  counter(local_rank_, stage)->value.store(round);  // seq_cst: as the doorbell's protocol asks
  ring();
}

std::optional<bool> NodePlane::all_without_slots(std::uint64_t number) {
  bool all = true;
  for (int rank = 0; rank < local_size_; ++rank) {
    if (!has_reached(rank, kMode, 2 * number)) return std::nullopt;
    // Nobody is further on: a stream cannot end before every rank has taken part in it.
    all = all && seen_[static_cast<std::size_t>(rank)][kMode] == 2 * number + 1;
  }
  return all;
}

bool NodePlane::wait_until_stopped(const std::function<bool(int local_rank)>& is_gone,
                                   Deadline deadline) {
  for (int rank = 0; rank < local_size_; ++rank) {
    while (rank != local_rank_ && !has_reached(rank, kStopped, 1) && !is_gone(rank)) {
      if (deadline.has_passed()) return false;
      sched_yield();
    }
  }
  return true;
}

bool NodePlane::all_have_reached(Stage stage, std::uint64_t round) {
  for (int rank = 0; rank < local_size_; ++rank) {
    if (!has_reached(rank, stage, round)) return false;
  }
  return true;
}

void NodePlane::publish_small(std::uint64_t number) {
  small_slot(local_rank_, number)->number.store(number);  // seq_cst: as the doorbell asks
  ring();
}

bool NodePlane::all_have_small(std::uint64_t number) {
  if (small_seen_for_ != number) {
    small_seen_for_ = number;
    small_seen_ = 0;
  }
  while (small_seen_ < local_size_) {
    // Pairs with the store in publish_small(): the small bytes are visible. seq_cst: as in load().
    if (small_slot(small_seen_, number)->number.load() != number) return false;
    ++small_seen_;
  }
  return true;
}

void NodePlane::ring() const {
  if (doorbell_ != nullptr && local_size_ > 1) doorbell_->ring_others();
}

}  // namespace hvd
