// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "collective/communicator.h"
#include "engine/plane/direct_rounds.h"
#include "engine/protocol/board.h"
#include "engine/protocol/control_tree.h"
#include "engine/protocol/coordinator.h"
#include "engine/protocol/direct_relay.h"
#include "engine/protocol/leader.h"
#include "engine/request/pending_request.h"
#include "transport/doorbell.h"

namespace hvd {

/// Decisions of the log: what this rank does next, in log order.
struct RunTogether {
  int process_set = 0;
  int divisor = 0;           ///< As Run::divisor.
  std::uint32_t bucket = 0;  ///< As Run::bucket.
  std::vector<PendingPtr> requests;
};
/// All ranks have brought the request with its bytes (see DirectRounds); ends with end_direct().
struct RunDirect {
  int process_set = 0;
  PendingRequest* request = nullptr;
  std::span<const void* const> places;  ///< What each rank has brought.
};
struct FailRequest {
  PendingPtr request;
  Status status;  ///< Ok: a join that is over.
};
struct PeerLeft {
  int rank = 0;
};
struct PeerLost {
  int rank = 0;
  std::string text;
};
struct AllLeft {};
/// A new process set, also one without this rank.
struct SetFormed {
  int process_set = 0;
  RankSet ranks;
};
/// This rank has joined; the use of the name was the others' alone.
struct PassedOver {
  int process_set = 0;
  std::string name;
};
/// The buckets of the process set are fixed from here on, or no more.
struct BucketsChanged {
  int process_set = 0;
  bool are_frozen = false;
};
/// Ranks have waited for others longer than they may.
struct GivenUp {
  std::string text;
};
using Decision = std::variant<RunTogether, RunDirect, FailRequest, PeerLeft, PeerLost, AllLeft,
                              GivenUp, SetFormed, PassedOver, BucketsChanged>;

/// Stage two, submitted -> negotiated: agrees with the other ranks on what runs next.
///
/// Every rank is a *member*: it announces on the node's board and replays the log. Local rank 0
/// is also its node's *leader* (see Leader), and the leader of the first node the *root*, which
/// decides (see Coordinator). No rank waits here: each step moves what can move.
/// Engine thread only.
class Negotiation {
 public:
  struct Place {
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    std::vector<int> node_ranks;          ///< [local rank] -> rank.
    std::vector<RankSet> child_subtrees;  ///< Leaders: the ranks below each child.
    std::vector<std::string> hosts;       ///< By rank.
    std::vector<long> pids = {};          ///< By rank; for people.
  };

  Negotiation(Place place, const Board& board, Doorbell* doorbell, ControlTree tree,
              const Coordinator::Options& options);

  /// Announces the request; one whose name is in flight on this rank queues behind it.
  void submit(PendingPtr pending);
  /// From now on small requests of the process set, which lives on this node, may go by `rounds`.
  /// Both outlive that, until close_direct() or the end.
  void open_direct(const Communicator& communicator, DirectRounds& rounds);
  void close_direct(int process_set);
  /// What the others brought to the RunDirect has been read. Returns its request.
  PendingPtr end_direct(int process_set);
  /// Says farewell; what is queued will still be announced.
  void leave();
  /// At the root, once all ranks have agreed: the log tells every rank that the process set is
  /// there, or no more. Elsewhere: nothing.
  void add_set(const RankSet& ranks);
  void remove_set(int process_set);
  /// At the root: as Coordinator::hold.
  void hold(int process_set, bool held) {
    if (coordinator_ != nullptr) coordinator_->hold(process_set, held);
  }
  /// This rank has learnt that a peer is lost: tells the others.
  void spread_loss(int rank, const std::string& text);

  /// True where a rank that has not left hears the others through this one, or they hear it: the
  /// ranks of a leader's node and of those below it in the tree; of rank 0 all.
  bool speaks_for_others() const;

  /// Leaves the reason for the end of this rank on the board.
  void leave_farewell(std::string_view text);
  /// The last words of a rank of this node; empty where it said nothing.
  std::string farewell_of(int local_rank) const;
  /// This rank reads the log no more: nobody need wait for it to make room.
  void stop_listening();
  /// The same of a rank of this node that has left and ended.
  void forget_reader(int rank);

  /// Urges the root where this rank may be what keeps a bucket back: a caller waits for something
  /// that nothing has decided, longer than it should (PendingRequest::overdue_at), and the rank has
  /// submitted a part of the bucket only. Without such a part, where it has waited kAnyway more.
  /// Returns when to look again; the next tick will do unless it is sooner.
  Clock::time_point urge(Clock::time_point now);

  /// Moves messages. True when anything moved.
  bool step();
  /// Hands on what was said already and found no room; true when nothing is left. For the time
  /// after the end, when step() is over: the others may still wait for the last word.
  bool flush();
  /// Heartbeats, stall reports; call when some time has passed.
  void tick(Clock::time_point now);
  /// As ControlTree::awaits_answer().
  bool awaits_answer() const { return tree_.awaits_answer(); }
  /// Swaps the decisions into `taken`, which is empty.
  void take_decisions(std::vector<Decision>& taken) { taken.swap(decisions_); }
  /// What has become of the offer of a request; kAgreed: its decision is there. Nothing: it is none
  /// of this rank's, or the rank carries those of other nodes first.
  std::optional<DirectRounds::Verdict> look(const PendingRequest& offered);
  std::uint64_t announced_in_full() const { return announced_in_full_; }
  std::uint64_t evictions() const { return evictions_; }
  /// Names that this rank keeps in mind, of all process sets.
  std::size_t known_names() const;
  /// Requests that are announced or queued here; forgets them.
  std::vector<PendingPtr> take_all_requests();

 private:
  /// From when a caller is overdue until its rank urges though it has submitted whole buckets:
  /// another may go on without the rest of them, and wait for nothing.
  static constexpr std::chrono::seconds kAnyway{1};
  /// More between two ticks, of which there are five a second, is not time in which ranks waited.
  static constexpr std::chrono::seconds kMostTick{2};
  struct Name {
    std::optional<std::uint32_t> id;
    Description described;  ///< What the id stands for.
    PendingPtr current;
    std::deque<PendingPtr> queued;
    /// The last use failed, maybe before the leader saw its bit: a second toggle would undo the
    /// first, and both go unseen. So the next one is announced in full.
    bool in_full = false;
    std::uint32_t key = 0;  ///< In direct rounds, where it has an id.
    /// Direct rounds in a row that came to nothing because of it, and the position of the set from
    /// which it is offered again.
    std::uint32_t misses = 0;
    std::uint64_t offer_from = 0;
  };
  using Names = std::unordered_map<std::string, Name>;
  using NameEntry = Names::value_type;
  /// The direct rounds of a process set.
  struct Direct {
    const Communicator& communicator;
    DirectRounds& rounds;
    std::vector<const void*> places;  ///< By rank; of the round that is agreed.
    NameEntry* offered = nullptr;     ///< By this rank.
    bool is_agreed = false;           ///< RunDirect is out.
    int ticks = 0;                    ///< Since it was offered.
    PendingPtr join = {};             ///< Of this rank, until the offer is decided.
  };
  /// A process set as this rank knows it.
  struct Set {
    bool is_member = false;
    Names names;
    PendingPtr joining;               ///< Until the join ends.
    bool joined = false;              ///< By the log.
    std::uint32_t join_epoch = 0;     ///< Joins that have ended.
    std::deque<Status> missed_joins;  ///< Joins that failed before this rank called them.
    std::vector<std::vector<std::uint32_t>> buckets;  ///< Of the frozen schedule.
    bool has_urged = false;                           ///< Since it was frozen.
    std::unique_ptr<Direct> direct;                   ///< Null: there are no direct rounds.
    std::uint64_t position = 0;                       ///< Uses that the log has ended.
    std::unordered_map<std::uint32_t, NameEntry*> by_key;
  };
  /// Result of find_overdue(): undecided requests of this rank past their deadline.
  struct Overdue {
    bool any = false;
    Clock::time_point next = Clock::time_point::max();  ///< When the next one will be.
    std::vector<std::uint32_t> for_long = {};           ///< Ids that are kAnyway beyond that.
  };

  bool is_leader() const { return place_.local_rank == 0; }
  bool is_root() const { return place_.rank == 0; }

  Set* find_set(int process_set);
  NameEntry* find_name(int process_set, const std::string& text);
  void announce(Set& set, NameEntry& entry);
  void announce_in_log(const Set& set, NameEntry& entry);
  bool offer_direct(Set& set, NameEntry& entry);
  bool is_announced(Set& set, const DirectRounds::Offer& theirs);
  static void miss(const Set& set, Name& name);
  bool step_direct();
  bool step_direct(Set& set);
  void agree(Direct& direct);
  void want_old_offers_back();
  bool has_offers() const;
  bool relay_direct();
  void say_farewell();
  void join(Set& set, PendingPtr pending);
  static void append_owed(const Set& set, int process_set, std::vector<Owed>& owed);
  void apply_failure(const Failure& failure);
  void apply_joined(const Joined& joined);
  void apply_join_end(const JoinEnd& end);
  PendingPtr stand_in(const std::string& text, const Description& description);
  Overdue find_overdue(Clock::time_point now) const;
  void urge(Set& set, int process_set, const Overdue& overdue);
  void say_up(ControlMessage message);
  bool listen_to_members();
  bool listen_to_tree();
  /// True for the leader of a node below where it and all that are heard through it have left.
  bool has_left_with_those_below(int leader) const;
  bool read_log();
  void receive(int from, ControlMessage message);
  void pass_up_or_decide();
  void decide(ControlMessage message);
  void write_log(const ControlMessage& entry);
  void apply(const ControlMessage& entry);
  void apply_define(const Define& define);
  void apply_evict(const Evict& evict);
  void apply_run(const Run& run);
  void apply_frozen(const Frozen& frozen);
  void apply_thawed(const Thawed& thawed);
  void apply_set_added(const SetAdded& added);
  void apply_set_removed(int process_set);
  PendingPtr take_current(int process_set, const std::string& text);
  PendingPtr take_current(Set& set, NameEntry& entry);
  void report_stalls();
  void ring();

  Place place_;
  Board board_;
  Doorbell* doorbell_;
  ControlTree tree_;
  std::chrono::milliseconds stall_warning_;
  std::chrono::milliseconds stall_shutdown_;
  Clock::time_point now_;     ///< Without the time that this process was held up: see tick().
  Clock::time_point ticked_;  ///< The last tick, by the clock.
  RankSet left_;              ///< Have said farewell, and owe nothing.

  // As a member.
  std::vector<std::unique_ptr<Set>> sets_;  ///< By process set; null: removed.
  struct IdName {
    Set* set = nullptr;
    NameEntry* entry = nullptr;  ///< Null: of a process set without this rank.
  };
  std::vector<IdName> by_id_;
  ReadyBits bits_;
  RingWriter up_;
  RingReader log_;
  std::vector<Decision> decisions_;
  std::vector<Set*> direct_sets_;
  std::uint32_t keys_ = 0;  ///< Definitions in the log.
  int frozen_sets_ = 0;     ///< Of those with this rank.
  std::uint64_t announced_in_full_ = 0;
  std::uint64_t evictions_ = 0;
  bool is_leaving_ = false;  ///< Says farewell once its offers are decided.
  bool has_left_ = false;    ///< Has said farewell.
  bool lost_ = false;
  bool ring_leader_ = false;

  // As a leader.
  std::unique_ptr<Leader> leader_;
  std::unique_ptr<DirectRelay> relay_;        ///< Null: there is one node, or no direct rounds.
  std::vector<ReadyBitsReader> member_bits_;  ///< By local rank; mine is not used.
  std::vector<RingReader> member_up_;
  RingWriter down_;
  bool ring_members_ = false;

  // As the root.
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace hvd
