// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "collective/rank_set.h"

namespace hvd {

/// A tensor that some ranks have submitted and others have not.
struct StalledTensor {
  std::string name;
  std::string operation;  ///< For people: "allreduce(average)".
  int process_set = 0;
  std::chrono::milliseconds waited{0};
  RankSet ranks;  ///< Wait for it.
  RankSet missing;
};

/// All that waits for ranks, as the root knows it.
struct Stalls {
  std::vector<StalledTensor> tensors;
  RankSet parted;  ///< Have called join or shutdown, and wait there.
};

/// Where the ranks run, for people: by rank; a process of 0, or none, is not known.
struct RankPlaces {
  std::vector<std::string> hosts;
  std::vector<long> pids;
};

/// The report of what has waited for `patience` or longer, by the ranks that are missing, oldest
/// first: what waits for them, which ranks wait for each other in a circle, and which are in their
/// own code.
std::string describe_stalls(const Stalls& stalls, std::chrono::milliseconds patience,
                            const RankPlaces& places);

/// Why the job ends: what has waited for `limit` or longer, in one line.
std::string describe_end(const Stalls& stalls, std::chrono::milliseconds limit,
                         const RankPlaces& places);

/// Says when to report: each time after twice the time, up to ten minutes, and from the beginning
/// when other ranks are missing. Pure: no clock of its own. One thread at a time.
class StallPace {
 public:
  static constexpr std::chrono::milliseconds kMost = std::chrono::minutes(10);

  explicit StallPace(std::chrono::milliseconds warning) : warning_(warning), next_(warning) {}

  /// `missing`: whom something waits for that has waited long enough; none: nothing has.
  bool is_due(Clock::time_point now, const RankSet& missing);

 private:
  std::chrono::milliseconds warning_;
  std::chrono::milliseconds next_;  ///< From the last report to the next.
  RankSet missing_;                 ///< Of the last report.
  bool any_ = false;                ///< There was one.
  Clock::time_point last_;
};

}  // namespace hvd
