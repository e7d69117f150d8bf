// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "collective/launch_order.h"
#include "collective/rank_set.h"
#include "engine/plane/set_plane.h"

namespace hvd {

/// The planes of the process sets that this rank is in, the one of all ranks first.
/// Under the progress lock.
class Planes {
 public:
  /// Of rank `rank` in a job of `size`.
  Planes(int rank, int size) : launch_order_(rank, size) {}

  /// The plane of process set 0.
  void open_world(std::unique_ptr<SetPlane> plane) { planes_.push_back(std::move(plane)); }
  std::span<const std::unique_ptr<SetPlane>> all() const { return planes_; }
  /// Null: this rank is not in the set, or the set was removed.
  SetPlane* find(int process_set) const;

  /// Keeps the plane of the set that is being added until the log names it; null drops it.
  void set_forming(std::unique_ptr<SetPlane> plane) { forming_ = std::move(plane); }
  /// The log has named a set. Returns its plane, null on ranks that are not in it; kInternal: this
  /// rank is in it and has no plane for it.
  Result<SetPlane*> form(int process_set, const RankSet& ranks, int rank);
  /// The last set that the log named; 0: none.
  int last_formed() const { return last_formed_; }
  /// Takes the plane out; null on ranks that are not in the set.
  std::unique_ptr<SetPlane> retire(int process_set);

  /// As LaunchOrder::take_turn().
  LaunchTurn take_turn(int process_set, Device device) {
    return launch_order_.take_turn(process_set, device);
  }
  bool needs_polling() const;
  bool has_gpu_work() const;
  bool has_batches() const;
  /// True while something runs in which the rank takes part.
  bool has_batch_with(int rank) const;
  /// A connection whose host has not answered for `limit`, of sets with work under way, or of all;
  /// null: none.
  const Link* find_silent(std::chrono::milliseconds limit, bool in_all) const;
  /// True while some host has left something unanswered.
  bool awaits_answer() const;

 private:
  LaunchOrder launch_order_;  ///< Batches of the planes refer to it.
  std::vector<std::unique_ptr<SetPlane>> planes_;
  std::unique_ptr<SetPlane> forming_;
  int last_formed_ = 0;
};

}  // namespace hvd
