// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "engine/plane/set_plane.h"
#include "engine/request/completion.h"
#include "engine/request/request_check.h"
#include "engine/request/submission.h"

namespace hvd {

/// The process sets of the job as callers know them, also those without this rank: who may submit
/// what to which set. The log has the last word (see Planes).
/// Thread-safe.
class ProcessSets {
 public:
  struct Known {
    std::vector<int> ranks;     ///< Of the job, ascending.
    SetPlane* plane = nullptr;  ///< Null on ranks that are not in it.
    bool closing = false;       ///< Being removed: takes no more requests.
    PendingPtr join;            ///< This rank has joined: takes none either, until it is done.
  };

  ProcessSets(const Communicator& world, Submission& submission, Completion& completion)
      : world_(world), submission_(submission), completion_(completion) {}

  /// Before any thread knows this object.
  void open_world(SetPlane& plane);

  /// Checks the request on this rank, fills in what it leaves out, and counts it in its set; the
  /// root becomes a rank of the set. kInvalidArgument: the set, the request or its GPU cannot be.
  Status enter(Request& request);
  /// The rank has no more data for the set: queues its join, once.
  Result<PendingPtr> enter_join(int process_set, bool active_average);
  /// The join is over: the set takes requests of this rank again.
  void leave_join(int process_set, const PendingPtr& join);
  bool has_joined_world() const { return has_joined_world_.load(); }

  /// Sorts the ranks of a set to be and checks them on this rank.
  Status check_new(std::vector<int>& ranks) const;
  /// The set is there from now on.
  void add(int process_set, std::vector<int> ranks, SetPlane* plane);
  /// The set takes no more requests of this rank. Returns its plane; null without this rank.
  Result<const SetPlane*> close(int process_set);
  /// It is not removed after all.
  void reopen(int process_set);
  void erase(int process_set);

  /// The numbers of all sets, ascending.
  std::vector<int> ids() const;
  Result<std::vector<int>> ranks_of(int process_set) const;
  /// All sets, by number. For people: their planes are under the progress lock.
  std::map<int, Known> snapshot() const;

 private:
  Status enter_known(Request& request);

  const Communicator& world_;
  Submission& submission_;
  Completion& completion_;
  SetPlane* world_plane_ = nullptr;
  std::atomic<bool> has_joined_world_{false};  ///< As `join` of set 0; saves a lock.
  mutable Mutex mutex_;
  std::map<int, Known> sets_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
