// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd {

/// The processes of an elastic job, by number, and how many ranks it is to have.
struct RosterPlan {
  int size = 1;       ///< Ranks of the first membership; the most there are, until aim_at().
  int min_size = 1;   ///< With fewer the job ends.
  int processes = 1;  ///< The first `size` of them start as ranks, the others are spares.
  int reserve = 0;    ///< So many of the last are places without a process yet.
};

/// One membership of an elastic job.
struct Membership {
  struct Member {
    int process = 0;
    int local_rank = 0;  ///< Kept as long as those below it on its node are there.
    int local_size = 1;
  };
  std::uint64_t epoch = 0;      ///< From 1 on.
  std::vector<Member> members;  ///< By rank.
  bool at_work = false;         ///< The ranks of an earlier one have met.
};

/// Decides which process of an elastic job has which rank, from one membership to the next.
///
/// A process enters when it calls hvd.init(), and has a place once the next membership begins: when
/// all members that live have entered. Who was a member keeps its rank; who comes anew (a spare)
/// takes a rank that is free, those on the nodes that have lost one first. Two rules come before
/// that: rank 0 is the one that has been a member longest, as all others get its state, and who has
/// come lately may not have that yet; and ranks have no gaps.
/// No sockets, no clock of its own: decisions only. One thread at a time.
class Roster {
 public:
  explicit Roster(RosterPlan plan);

  /// How long a membership waits for who is still starting and may take a free rank; after that it
  /// begins without, if it has enough ranks, and grows later.
  static constexpr std::chrono::seconds kPatience{2};

  /// One more process, which starts; it has the next number.
  void add_process();
  /// So many ranks there are to be from now on; at least as many as the job needs.
  void aim_at(int size) { aim_ = std::max(size, plan_.min_size); }
  /// True for a process that has a place, or had one until it entered, and lives.
  bool is_member(int process) const { return members_.contains(process); }
  bool has_begun() const { return last_.epoch != 0; }
  /// False: there is no such process, or it has ended.
  bool may_enter(int process) const;
  /// The process, on that node, asks for a place. Where it has one in a membership that not all
  /// have joined yet, that is void.
  void enter(int process, const std::string& node);
  /// It asks no longer: its connection is gone.
  void withdraw(int process) {
    waiting_.erase(process);
    waits_since_.reset();
  }
  void ended(int process);
  /// A member has come to the end of its program: no membership follows, unless another one has
  /// lost it, now or later (a pipe or a shell has hidden that it failed).
  void finish(int process);
  /// A member has lost that process. Where it has finished nothing follows before ended() says what
  /// becomes of it: it may be started again.
  void lose(int process);

  /// The next membership, if it is due. Those that have a place in it wait no longer.
  std::optional<Membership> begin(Clock::time_point now);
  /// When begin() may have more to give though nothing happens.
  Deadline next() const;
  /// Why no membership can follow; nothing: one can.
  std::optional<Status> verdict() const;

  /// True while the ranks of the last membership are all at work, and are more than there are to
  /// be, or fewer while others wait.
  bool can_change() const;
  /// All ranks of the last membership have met.
  void met() {
    is_open_ = false;
    has_met_ = true;
  }
  /// True while ranks of this membership may join: it is the last one, and none has left it.
  bool may_join(std::uint64_t epoch) const { return is_open_ && epoch == last_.epoch; }
  /// Which process is that rank of that membership, if it is the last one.
  std::optional<int> process_of(std::uint64_t epoch, int rank) const;
  /// The members that have not entered: "rank 2", "ranks 2, 3".
  std::string missing() const;

 private:
  bool lives(int process) const { return !gone_.contains(process); }
  /// All members that live have entered.
  bool all_wait() const;
  /// Processes that may yet come: they start.
  int starting() const;
  /// By rank who has it, of the living members that are to keep theirs; -1: it is free.
  std::vector<int> kept_ranks(int size) const;
  /// Gives rank 0 to the member that has been one longest.
  void settle_root(std::vector<int>& by_rank) const;
  /// Who comes anew, those on the nodes that have lost a member first.
  std::vector<int> newcomers() const;
  /// Members beyond that number have none of the next ranks: they wait on, as spares.
  void release_members(int size);
  Membership assign(int size);
  void number_locally(Membership& membership);
  const std::string& node_of(int process) const {
    return nodes_[static_cast<std::size_t>(process)];
  }

  RosterPlan plan_;
  int aim_;                           ///< Ranks there are to be.
  Membership last_;                   ///< Before the first: the processes that start as ranks.
  std::set<int> members_;             ///< Of `last_`, who live: the next membership waits for them.
  std::set<int> waiting_;             ///< Who have entered.
  std::set<int> gone_;                ///< Whose process has ended.
  std::vector<std::string> nodes_;    ///< By process; empty: it has not entered yet.
  std::vector<std::uint64_t> since_;  ///< By member: the epoch in which it became one.
  std::vector<int> slots_;            ///< By process: its place on its node; -1: none yet.
  bool has_met_ = false;              ///< The ranks of some membership have.
  bool is_open_ = false;              ///< The last membership has begun, and not all have met.
  std::set<int> finished_;            ///< Members of the last membership that have.
  std::set<int> lost_;                ///< Of those of the last membership, whom others have lost.
  std::set<int> disputed_;            ///< Who have finished and were lost.
  std::optional<Clock::time_point> waits_since_;
};

}  // namespace hvd
