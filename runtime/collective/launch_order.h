// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/gpu.h"

namespace hvd {

class LaunchOrder;

/// A batch's place among those of other process sets: see LaunchOrder. An empty one comes before
/// all, and nothing comes before it. Engine thread only.
class LaunchTurn {
 public:
  LaunchTurn() = default;
  LaunchTurn(LaunchTurn&& other) noexcept
      : order_(std::exchange(other.order_, nullptr)), ticket_(other.ticket_) {}
  LaunchTurn& operator=(LaunchTurn&& other) noexcept {
    std::swap(order_, other.order_);
    std::swap(ticket_, other.ticket_);
    other.drop();
    return *this;
  }
  /// The batch is done, or goes another way.
  ~LaunchTurn() { drop(); }

  /// True when streams hold all that comes before.
  bool has_come() const;
  /// The same where all process sets take turns.
  bool has_come_of_all() const;
  /// Once it has come: where what comes before ends, one event for each process set.
  std::vector<GpuEventPtr> before() const;
  /// A stream holds the batch, up to the event.
  void pass_on(GpuEventPtr finish_point);
  void drop();

 private:
  friend class LaunchOrder;
  LaunchTurn(LaunchOrder& order, std::uint64_t ticket) : order_(&order), ticket_(ticket) {}

  LaunchOrder* order_ = nullptr;
  std::uint64_t ticket_ = 0;
};

/// In which order batches of different process sets reach a GPU of this rank.
///
/// A collective on a device holds it until all members run it. Where two of them do not fit on a
/// device side by side, and ranks run them in different orders, each waits for the other for ever.
/// Such a circle of waiting leads through two process sets of a rank and back to it by other ranks:
/// straight, where the sets have a second member in common, or by way of sets that this rank is not
/// in. Sets for which there is a way back take turns, in the order of the log, which is one for all
/// ranks; the latest batch of a circle would wait for the earliest, so that there is none. Sets
/// that only have this rank in common are left alone. Engine thread only.
class LaunchOrder {
 public:
  /// Of rank `rank` in a job of `size`, with process set 0.
  LaunchOrder(int rank, int size);
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  /// `ranks` of the job. As the log says: what comes after it may wait for it.
  void add_set(int process_set, std::vector<int> ranks);
  /// Nothing of it is in flight.
  void remove_set(int process_set);

  /// The place of a batch, in the order of the calls: that of the log. Sets that come later change
  /// nothing for it: what they have in flight comes after it.
  LaunchTurn take_turn(int process_set, Device device);
  /// True for different process sets of this rank that take turns. Pure.
  bool may_lock_out(int one, int other) const;

 private:
  friend class LaunchTurn;
  struct Batch {
    int process_set = 0;
    std::int32_t gpu = 0;
    std::vector<std::uint64_t> earlier = {};  ///< Tickets that it comes after, ascending.
    GpuEventPtr finish_point = nullptr;       ///< Null: not launched.
  };
  bool take_turns(const Batch& one, const Batch& other);

  int rank_;
  std::map<int, std::vector<int>> sets_;
  std::map<std::pair<int, int>, bool> known_;    ///< Of may_lock_out(), asked again and again.
  std::map<std::uint64_t, Batch> batches_ = {};  ///< In flight, by ticket.
  std::uint64_t next_ticket_ = 0;
};

}  // namespace hvd
