// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/roster.h"

namespace hvd {

/// Decides what the end of a process means for an elastic job, and says in words what becomes of
/// its ranks. Processes are numbered: the ranks of the start first, the spares behind them. Knows
/// no processes of the system: the caller does what it returns. Not thread-safe.
class Recovery {
 public:
  /// How long the others may wait for a rank that they have lost and that lives on: it is stopped,
  /// hangs, or is slow to come to hvd.init() again.
  static constexpr std::chrono::seconds kPatience{60};

  /// `hosts`: by process.
  Recovery(int size, int min_size, std::vector<std::string> hosts);

  /// A process has ended, as `how` says ("signal 9 (Killed)"). What to tell the user; nothing: the
  /// job cannot go on without it, and its failure is that of the job.
  std::optional<std::string> failed(int process, const std::string& how, Clock::time_point now);
  /// A process has come to the end of its program.
  void finished(int process);
  /// A membership has begun. What to tell the user; empty: nothing.
  std::string begun(const Membership& membership, Clock::time_point now);
  /// Rank `by` has lost rank `lost`; a negative one: it has started with all of them.
  void loses(int by, int lost, Clock::time_point now);
  /// Processes to kill, as others have waited long enough for them.
  std::vector<int> overdue(Clock::time_point now);
  /// When `overdue` has more to give even if nothing else happens.
  Deadline next() const;

  /// No rank is left: what still lives are spares.
  bool is_over() const { return ranks_.empty(); }
  /// The process that has a rank, as far as there is one.
  std::optional<int> process_of(int rank) const;
  /// "rank 2", "spare 4", for messages.
  std::string name_of(int process) const;
  /// Why the job cannot go on, after failed() gave nothing: "3 processes are left, and ...".
  std::string shortage() const;
  /// The failure of the job, as that of a process that was called `name` before failed().
  std::string describe_failure(const std::string& name, int process, const std::string& how) const;
  /// That a process of overdue() is killed, and why.
  std::string describe_overdue(int process) const;
  /// The first loss since the job was whole, for the last line; empty: there was none.
  const std::string& first_loss() const { return first_loss_; }

 private:
  int living() const { return static_cast<int>(hosts_.size() - gone_.size()); }
  std::string successor() const;
  const std::string& host_of(int process) const {
    return hosts_[static_cast<std::size_t>(process)];
  }

  int size_;
  int min_size_;
  std::vector<std::string> hosts_;  ///< By process.
  std::map<int, int> ranks_;        ///< By living process: its rank.
  std::vector<int> processes_;      ///< By rank, of the last membership.
  std::set<int> gone_;
  std::map<int, Clock::time_point> awaited_;  ///< By process that was lost and lives: until when.
  std::optional<Clock::time_point> lost_at_;  ///< The first loss of this membership.
  std::string first_loss_;
  bool has_finished_ = false;
};

}  // namespace hvd
