// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "transport/doorbell.h"

namespace hvd {

/// The shared memory of one communicator in a node: slots to pass bytes through, and counters.
///
/// Each rank has kSlots slots for streams, two slots for small batches (whose sequence number lies
/// in the same cache line as the first bytes), and a counter per stage of a stream. A counter is
/// written by its rank only, grows for ever and counts the rounds whose stage the rank has
/// finished. Bytes of a slot are written before the counter that announces them and read after it
/// was seen. Nobody but its owner touches a user's buffer, so a rank that dies cannot harm the
/// memory of another one; except for buffers that their owners put into the arenas for that purpose
/// (see ZeroCopy).
/// Engine thread only.
class NodePlane {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
  static constexpr std::uint64_t kSlots = 4;
  /// How much of a slot each round fills where `bytes` move: an eighth of them, so that they are
  /// copied in and out at the same time. But half a slot at least, whose copy takes longer than the
  /// ranks need to hear of each other (smaller pieces cost a quarter more at 128 to 256 KB), and
  /// whole slots for what is long, because ranks that share a core then pass more before they have
  /// to wait for one another.
  static constexpr std::size_t piece_bytes(std::size_t bytes) {
    return std::clamp(bytes / 8 / 4096 * 4096, kSlotBytes / 2, kSlotBytes);
  }
  static constexpr std::size_t kSmallBytes = 4096 - 16;

  enum Stage : std::size_t {
    kIn = 0,       ///< My bytes of the round are in my slot.
    kReduced = 1,  ///< The results that I own are in their slots.
    kOut = 2,      ///< I have read all that I need from the slots of the round.
    kMode = 3,     ///< Twice the number of my stream, and one where I could do without slots.
    kStopped = 4,  ///< 1: I have given up, and touch nobody's memory any more.
  };
  static constexpr std::size_t kStages = 5;

  static std::size_t memory_bytes(int local_size);
  /// `memory` as long as memory_bytes says, zeroed; `doorbell` may be null where nobody sleeps.
  NodePlane(std::span<std::byte> memory, int local_rank, int local_size, const Doorbell* doorbell);

  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  /// Tells the others that I have finished `stage` of all rounds below `round`.
  void publish(Stage stage, std::uint64_t round);
  /// True when `rank` has finished `stage` of all rounds below `round`.
  bool has_reached(int rank, Stage stage, std::uint64_t round) {
    std::uint64_t& seen = seen_[static_cast<std::size_t>(rank)][stage];
    if (seen >= round) return true;
    seen = load(rank, stage);
    return seen >= round;
  }
  bool all_have_reached(Stage stage, std::uint64_t round);
  /// True when every rank has left the round that used the slots of `round` before.
  bool slot_is_free(std::uint64_t round) {
    return round < kSlots || all_have_reached(kOut, round - kSlots + 1);
  }
  std::byte* slot(int rank, std::uint64_t round) const;

  /// Tells the others whether I could run the stream `number` without slots.
  void publish_mode(std::uint64_t number, bool without_slots) {
    publish(kMode, 2 * number + (without_slots ? 1 : 0));
  }
  /// Whether every rank has said that it could; nothing while somebody has said nothing.
  std::optional<bool> all_without_slots(std::uint64_t number);

  /// Small batches: the bytes of `rank` for the small batch `number` (counted from 1), and whether
  /// they are there. Two slots suffice: a rank that runs batch n has seen all others in n - 1, so
  /// they have left n - 2.
  std::byte* small(int rank, std::uint64_t number) const;
  void publish_small(std::uint64_t number);
  bool all_have_small(std::uint64_t number);

  /// Places in the sequence of this communicator's work, equal on every rank.
  std::uint64_t next_round = 0;
  std::uint64_t next_small = 1;
  std::uint64_t next_stream = 1;
  /// The task at the head lets the other ranks write into this rank's tensors, or may have.
  bool is_written_by_others = false;

  /// Tasks run one after the other, in the order in which they took their tickets.
  std::uint64_t take_ticket() { return tickets_++; }
  bool is_at_head(std::uint64_t ticket) const { return ticket == served_ && !abandoned_; }
  void finish(std::uint64_t ticket) { served_ = ticket + 1; }
  /// A task was destroyed unfinished: the counters no longer agree, so nothing runs any more.
  void abandon() { abandoned_ = true; }
  /// Tells the others that this rank touches nobody's memory any more.
  void stop() { publish(kStopped, 1); }
  /// True when every rank has given up, but those that `is_gone` says have died; false when the
  /// deadline passed before.
  bool wait_until_stopped(const std::function<bool(int local_rank)>& is_gone, Deadline deadline);
  bool is_abandoned() const { return abandoned_; }

 private:
  struct alignas(64) CounterLine {
    std::atomic<std::uint64_t> value{0};
  };
  struct SmallSlot;

  std::uint64_t load(int rank, Stage stage) const;
  SmallSlot* small_slot(int rank, std::uint64_t number) const;
  CounterLine* counter(int rank, Stage stage) const;
  void ring() const;

  std::byte* memory_;
  int local_rank_;
  int local_size_;
  const Doorbell* doorbell_;
  std::vector<std::array<std::uint64_t, kStages>> seen_;  // by rank: saves reading shared lines
  int small_seen_ = 0;                // ranks below this one are known to have the current batch
  std::uint64_t small_seen_for_ = 0;  // ... which is this one
  std::uint64_t tickets_ = 0;
  std::uint64_t served_ = 0;
  bool abandoned_ = false;
};

}  // namespace hvd
