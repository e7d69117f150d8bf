// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/elastic_event.h"

namespace hvd {

/// Decides what the end of a process means for an elastic job, and says in words what becomes of
/// its ranks. Processes are numbered: the ranks of the start first, the spares behind them. Knows
/// no processes of the system: the caller does what it returns. Not thread-safe.
class Recovery {
 public:
  struct Options {
    int size = 1;
    int min_size = 1;
    int reserve = 0;                      ///< Places behind the spares, without a process yet.
    std::vector<std::string> hosts = {};  ///< By process; empty: not known yet.
    /// How long those that come back wait for a rank that lives and does not: it is stopped,
    /// hangs, or does something else.
    std::chrono::milliseconds patience{120'000};
  };

  explicit Recovery(Options options);

  /// The process runs on that host.
  void came(const ProcessCame& came);
  /// False: it has ended.
  bool lives(int process) const { return !gone_.contains(process); }

  /// A process has ended, as `how` says ("signal 9 (Killed)").
  /// `successor`: the number as which it is started again, by add(); `why_not`: for people.
  struct End {
    int process = 0;
    int code = 0;
    std::string how;
    std::optional<int> successor = {};
    std::string why_not = {};
  };
  /// What to tell the user; nothing: the job cannot go on without it, and its failure is that of
  /// the job.
  std::optional<std::string> failed(const End& end, Clock::time_point now);
  /// Whether the job could go on without the process, had it enough others.
  bool can_spare(int process) const;
  /// A process that starts in the place of a lost one; its number.
  int add(int lost);
  /// One that starts in a new place, on that host; its number, and that of its place.
  int add_on(const std::string& host);
  /// Processes that are to be there, and are not.
  int missing() const {
    return options_.size + spare_count_ + static_cast<int>(dismissed_.size()) - living();
  }
  /// A rank has come to the end of its program in this membership: nobody starts any more.
  bool has_finished() const { return !finished_.empty(); }
  bool is_rank(int process) const { return ranks_.contains(process); }
  /// Whether a process runs, or starts, on that host.
  bool is_used(const std::string& host) const;
  /// No host of a living process is unknown.
  bool knows_hosts() const;
  /// The first process in the row of those that were started one in the place of the other.
  int place(int process) const { return places_[static_cast<std::size_t>(process)]; }
  /// The job is to have so many ranks from now on; at least as many as it needs.
  void aim_at(int size) { options_.size = std::max(size, options_.min_size); }
  int aim() const { return options_.size; }
  /// The first `count` places without a living process, or as many as there are: a process of each,
  /// to be started again, by add(), in its place.
  std::vector<int> free_places(int count) const;
  /// Spares that nobody needs any more, the last first: more processes live than are to.
  std::vector<int> surplus() const;
  /// A process is to end, as nobody needs it any more.
  void dismiss(int process) { dismissed_.insert(process); }
  bool is_dismissed(int process) const { return dismissed_.contains(process); }
  /// A process has come to the end of its program, or one that was dismissed has ended.
  void finished(int process);
  /// Whether others have lost the process: where its exit code is 0, that hides its failure.
  bool was_lost(int process) const { return lost_.contains(process); }
  /// One that has finished, and that others have lost, as it turned out since the last call.
  std::optional<int> take_refuted();
  /// A membership has begun. What to tell the user; empty: nothing.
  std::string begun(const Membership& membership, Clock::time_point now);
  /// A process asks for a place.
  void entered(const ProcessEntered& entered, Clock::time_point now);
  /// Processes to kill, as others have waited long enough for them.
  std::vector<int> overdue(Clock::time_point now);
  /// Of those, the ones that have not ended in time: whoever was to kill them does not.
  std::vector<int> unkillable(Clock::time_point now);
  /// When `overdue` has more to give even if nothing else happens.
  Deadline next() const;

  /// A loss that no membership has followed.
  struct Loss {
    int process = 0;
    int code = 0;  ///< The exit code of the process, as a shell has it.
    std::string what;
  };
  /// The first since the last membership began. Once the others have ended well it is the failure
  /// of the job.
  const std::optional<Loss>& unhealed() const { return unhealed_; }

  const std::string& host_of(int process) const {
    return options_.hosts[static_cast<std::size_t>(process)];
  }
  int processes() const { return static_cast<int>(options_.hosts.size()); }
  /// No rank is left: what still lives are spares.
  bool is_over() const { return ranks_.empty(); }
  /// The processes that are ranks.
  std::vector<int> ranks() const;
  /// The spares that live.
  std::vector<int> spares() const;
  /// "rank 2", "spare 4", for messages.
  std::string name_of(int process) const;
  /// Why the job cannot go on, after failed() gave nothing: "3 processes are left, and ...".
  std::string shortage() const;
  /// The failure of the job, as that of a process that was called `name` before failed().
  std::string describe_failure(const std::string& name, const End& end) const;
  /// That a process of overdue() is killed, and why.
  std::string describe_overdue(int process) const;
  /// The first loss since the job was whole, for the last line; empty: there was none.
  const std::string& first_loss() const { return first_loss_; }

 private:
  int living() const { return static_cast<int>(options_.hosts.size() - gone_.size()); }
  std::string successor(const End& end) const;
  /// "rank 2 on host jz1"
  std::string place_of(int process, const std::string& name) const;

  Options options_;
  int spare_count_;           ///< That are to wait.
  std::vector<int> places_;   ///< By process.
  std::map<int, int> ranks_;  ///< By living process: its rank.
  std::set<int> gone_;
  std::set<int> dismissed_;
  std::set<int> waiting_;                 ///< Who have asked for a place.
  std::optional<Clock::time_point> due_;  ///< When all must have come back; nothing: none has.
  std::map<int, Clock::time_point> condemned_;  ///< By process of overdue(): until when it lives.
  std::map<int, int> finished_;                 ///< Of this membership, by process: its rank.
  std::set<int> lost_;                          ///< By others, in this membership.
  bool has_begun_ = false;
  std::optional<Loss> unhealed_;
  Clock::time_point lost_at_;  ///< Of `unhealed_`.
  std::string first_loss_;
};

}  // namespace hvd
