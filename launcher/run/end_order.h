// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "launcher/run/keeper.h"

namespace hvd {

/// Decides in which order the ends of ranks count, so that the first failure is the cause and not a
/// rank that gave up because of it. Ranks come in the order in which the keeper saw them end; a
/// failed one that said whom it lost waits for that rank's end, a short while. Not thread-safe.
class EndOrder {
 public:
  /// Rank `by` has lost rank `lost`; launch_env::kNobodyLost: it has started with all of them.
  void loses(int by, int lost);
  /// A rank ended.
  void ended(const RankEnded& report, Clock::time_point now);
  /// The ends whose time has come, in the order in which they count.
  std::vector<RankEnded> take(Clock::time_point now);
  /// Whom a rank has lost; none: it did not say so.
  std::optional<int> loss_of(int rank) const;
  /// The rank for whose loss that rank gave up, in the end: one that has lost nobody. None: it said
  /// nothing, or some have lost each other.
  std::optional<int> first_loss_of(int rank) const;
  /// A rank that has lost another one, and that one; none: no rank did.
  std::optional<std::pair<int, int>> any_loss() const;
  /// When `take` has more to give even if nothing else happens.
  Deadline next() const;

 private:
  struct Waiting {
    RankEnded report;
    Clock::time_point limit;
  };
  bool waits(const Waiting& waiting, Clock::time_point now) const;

  std::map<int, int> lost_by_;  ///< By rank: whom it lost.
  std::set<int> counted_;       ///< Ranks already given out.
  std::vector<Waiting> waiting_;
};

}  // namespace hvd
