// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "engine/protocol/control_message.h"

namespace hvd {

/// Speaks for a node and for the nodes below it in the tree: takes what members and child leaders
/// say, and passes one word upwards once its whole subtree agrees.
///
/// The usual case is AND: an id goes up when every rank of the subtree that is in the id's process
/// set has set its bit (a subtree without one has nothing to say). When a
/// name meets anything else (a description in full, half a child's subtree, a stall) its id turns
/// *partial*: what is known goes up with the ranks, so that the root can compare and report.
/// Pure: no clock, no input or output of its own. One thread at a time.
class Leader {
 public:
  /// `subtree`: every rank below this leader, its own node included. `size`: ranks of the job.
  Leader(RankSet subtree, int size);

  void member_ready(int rank, std::uint32_t id, Clock::time_point now);
  /// `child`: all ranks below that child leader.
  void child_ready(const RankSet& child, const Ready& ready, Clock::time_point now);
  /// Announce, Partial, Leave, Joining, Urge or Evicted from a member or a child. Of urges goes up
  /// the first since the buckets of the process set were frozen; Evicted once all have said it.
  void pass_up(ControlMessage message);
  /// Follows the log, which tells what ids mean and when a use of them is over.
  void follow(const ControlMessage& entry);
  /// Turns ids partial that have waited for `patience`.
  void give_up_waiting(Clock::time_point now, std::chrono::milliseconds patience);

  /// Messages that go up now; ids together in one Ready.
  std::vector<ControlMessage> take_up();
  bool has_up() const { return !up_.empty() || !ready_.ids.empty(); }

 private:
  struct Id {
    std::string name;
    int process_set = 0;
    RankSet have;
    int count = 0;
    int wanted = 0;  ///< Ranks of the subtree in the process set.
    bool partial = false;
    Clock::time_point since;
  };
  struct Set {
    RankSet ranks;
    int wanted = 0;
    bool any_joined = false;  ///< A rank has joined: no AND over the set will complete.
    bool is_frozen = false;   ///< Its buckets are fixed.
    bool has_urged = false;   ///< Somebody of the subtree has, since then.
    std::unordered_map<std::string, std::uint32_t> ids = {};  ///< By name.
  };

  Id* find(int process_set, const std::string& name);
  void define(const Define& define);
  void evict(const Evict& evict);
  void remove_set(int process_set);
  Set* find_set(int process_set);
  void add(std::uint32_t id, const RankSet& ranks, Clock::time_point now);
  /// `waited`: since the first of the ranks said so, where that is long ago.
  void turn_partial(Id& entry, Clock::duration waited = {});
  static bool is_unfinished(const Id& entry) { return entry.count != entry.wanted; }
  void tell_all_of(int rank);
  void turn_set_partial(int process_set);
  void reset(Id& id);

  RankSet subtree_;
  int size_;
  bool any_left_ = false;      ///< A rank has left: no AND over it will complete.
  std::uint32_t evicted_ = 0;  ///< Ranks of the subtree that have said Evicted.
  std::vector<Id> ids_;
  std::vector<Set> sets_;  ///< By process set; no ranks: removed.
  std::vector<ControlMessage> up_;
  Ready ready_;
};

}  // namespace hvd
