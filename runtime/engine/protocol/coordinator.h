// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "engine/protocol/board.h"
#include "engine/protocol/bucket_schedule.h"
#include "engine/protocol/control_message.h"
#include "engine/protocol/recent_names.h"
#include "engine/protocol/stalls.h"

namespace hvd {

/// Decides, at the root of the tree, what runs next: announcements in, log entries out.
///
/// A name belongs to a process set and runs when every rank of the set has announced it with one
/// description; the order of the log is the order in which names became complete, whatever the
/// order at any one rank. Allreduces of GPU memory leave in buckets once these are frozen (see
/// BucketSchedule). Pure: no clock, no input or output of its own. One thread at a time.
class Coordinator {
 public:
  struct Options {
    std::size_t fusion_bytes = std::size_t{64} << 20;
    std::chrono::milliseconds stall_warning{60'000};  ///< 0: never.
    std::chrono::milliseconds stall_shutdown{0};      ///< 0: never.
    std::uint32_t ids = Board::kMaxIds;               ///< That names may have.
    /// An id may be taken back once so many uses have come after its last. More than names of one
    /// step have uses: else those of a step with too many names would take each other's.
    std::uint64_t idle_uses = 4 * std::uint64_t{Board::kMaxIds};
  };

  /// `hosts`: the host name of each rank.
  Coordinator(std::vector<std::string> hosts, const Options& options);

  void announce(const Announce& announce, Clock::time_point now);
  /// Every rank of the id's process set has announced it.
  void ready(std::uint32_t id, Clock::time_point now);
  /// These ranks have. `now` may lie back, where they have waited before it was told.
  void ready(std::uint32_t id, const RankSet& ranks, Clock::time_point now);
  void leave(const Leave& leave);
  /// No rank toggles the bits of the evicted ids any more.
  void evicted();
  /// The rank takes part in the allreduces of the process set from here on, with nothing to add.
  void join(const Joining& joining);

  /// A rank waits for what buckets of the process set keep back: see BucketSchedule::urge().
  void urge(const Urge& urge);

  /// The ranks become a process set, with the next number.
  void add_set(const RankSet& ranks);
  /// The process set ends; nothing of it may be in flight.
  void remove_set(int process_set);

  /// While a process set is held (its data plane is busy) its complete names wait, and travel
  /// together later: fusion clocks itself.
  void hold(int process_set, bool held);
  /// The log entries that follow.
  std::vector<ControlMessage> decide();
  /// All that waits, when something has waited for the stall time and a report is due (see
  /// StallPace).
  std::optional<Stalls> report_stalls(Clock::time_point now);
  /// All that waits, when something has waited for so long that the epoch has to end.
  std::optional<Stalls> unbearable_stalls(Clock::time_point now) const;
  /// Steps of the process set that ran in frozen buckets from their first name to their last.
  std::uint64_t frozen_steps(int process_set);
  bool has_pending() const { return !waiting_.empty() || complete_ > 0; }
  /// Names that it keeps in mind, of all process sets.
  std::size_t known_names() const;

 private:
  struct Set;
  struct Name {
    std::string name;
    Set* set = nullptr;
    bool cacheable = true;
    bool is_place = false;
    bool is_evicted = false;  ///< It had an id which is not free yet.
    bool is_complete = false;
    std::optional<std::uint32_t> id;
    std::uint64_t last_use = 0;  ///< In uses_.
    Description description;     ///< Of the id, or of the last use.
    /// Of the last use, where it is not that of the id.
    std::optional<Description> other;
    std::vector<Offer> offers;  ///< Of the use that is being announced.
    RankSet announced;
    /// Uses that ranks owe which have said their last word.
    std::vector<std::pair<int, std::uint32_t>> owed = {};
    int contributors = 0;     ///< Of the complete use: ranks that did not join instead; 0: all.
    RankSet stand_ins = {};   ///< Of the complete use, on GPU memory: ranks that did.
    Clock::time_point since;  ///< First announcement.

    const Description& of_use() const { return other ? *other : description; }
    bool runs_by_id() const { return id && !other; }
    bool is_idle() const { return offers.empty() && !is_complete && owed.empty(); }
  };
  struct Set {
    int id = 0;
    RankSet ranks;
    int size = 0;
    bool held = false;
    RankSet joined;
    int last_joined = 0;
    std::uint32_t join_epoch = 0;
    bool active_average = false;
    Status join_failure;   ///< Ends the join, once what is complete has run.
    std::size_t owed = 0;  ///< Names that some rank owes a use.
    std::unordered_map<std::string, std::unique_ptr<Name>> names;
    std::vector<Name*> complete;  ///< Announced by all, not yet in the log, and in no bucket.
    bool any_left = false;
    BucketSchedule schedule{{}};
    std::vector<hvd::Run> buckets = {};  ///< Complete, not yet in the log.
  };

  Set* find_set(int process_set);
  Name& find_or_add(Set& set, const std::string& name);
  void add_offer(Name& name, const Description& description, const RankSet& ranks,
                 Clock::time_point now);
  void check_complete(Name& name);
  static void show_world_roots(Name& name);
  void check_left(Name& name);
  static bool may_run_by_name(const Name& name, const Description& description);
  void define(Name& name);
  void complete(Name& name);
  void run_complete(Set& set, std::vector<ControlMessage>& log);
  void run_group(const Set& set, const std::vector<std::size_t>& group,
                 std::vector<ControlMessage>& log);
  void fail(Name& name, Code code, std::string text);
  void finish(Name& name);

  // Ids, and names that lose theirs: coordinator_ids.cc.
  std::size_t taken_ids() const { return by_id_.size() - free_ids_.size(); }
  bool may_have_id(const Name& name);
  std::optional<std::uint32_t> next_id();
  bool may_evict(const Name& name) const;
  void evict_idle();
  void forget_set_ids(const Set& set);

  // Allreduces of GPU memory: coordinator_buckets.cc.
  BucketSchedule::Limits bucket_limits() const;
  static bool is_of_buckets(const Name& name, const Description& description);
  static bool may_freeze(const Name& name);
  void follow(Set& set, BucketSchedule::Outcome outcome);
  void run_buckets(Set& set, std::vector<ControlMessage>& log);

  // Names that wait for long: coordinator_stalls.cc.
  RankSet missing_of(const Name& name) const;
  RankSet missed_for(std::chrono::milliseconds time, Clock::time_point now) const;
  Stalls stalls(Clock::time_point now) const;

  // Last words: coordinator_join.cc.
  void note_owed(int rank, const std::vector<Owed>& owed);
  void pay(Name& name, const RankSet& ranks);
  void forgive(Set& set);
  RankSet owing(const Name& name) const;
  bool owes(int rank) const;
  static Status check_joinable(const Name& name);
  void check_join_left(Set& set);
  void end_joins(std::vector<ControlMessage>& log);

  std::vector<std::string> hosts_;
  Options options_;
  int size_;
  RankSet left_;
  StallPace pace_;
  bool shut_down_ = false;                  ///< The log is complete.
  std::vector<std::unique_ptr<Set>> sets_;  ///< By process set; null: removed.
  std::vector<Name*> by_id_;
  std::vector<std::uint32_t> free_ids_;     ///< Those that names had, and gave back.
  std::vector<std::uint32_t> evicted_ids_;  ///< Those that a rank may announce by yet.
  std::uint64_t uses_ = 0;                  ///< Complete ones, of all names.
  std::uint64_t evict_at_ = 0;              ///< In uses_: no sooner.
  RecentNames recent_;                      ///< Of those without an id.
  std::vector<Name*> waiting_;  ///< Announced by some ranks; in order of first announcement.
  bool any_joined_ = false;
  std::size_t owed_ = 0;      ///< Names that some rank owes a use, of all sets.
  std::size_t complete_ = 0;  ///< Names that are complete and not yet in the log, of all sets.
  std::vector<ControlMessage> log_;
};

}  // namespace hvd
