// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd {

/// Decides where processes of an elastic job start beside those that replace a lost one: in places
/// of this machine that are free, and on nodes of the job of Slurm that are there again, or are
/// new. Decisions only. Not thread-safe.
class Growth {
 public:
  /// Steps that are started on one node, and how long after the first the second may be; each time
  /// twice as long.
  static constexpr int kMostTries = 6;
  static constexpr std::chrono::seconds kFirstPause{10};
  /// Between two looks for nodes that nobody misses.
  static constexpr std::chrono::seconds kBetweenLooks{60};

  /// What the job has, and what it is to have.
  struct Need {
    int missing = 0;  ///< Processes that are to be there, and are not; negative: too many.
    int aim = 1;      ///< Ranks.
    int max_size = 1;
  };

  /// So many ranks more, or fewer, than before. How many processes are to start, as soon as there
  /// are places, is told by wanted().
  void aim_changed(int change, int missing);
  int wanted() const { return wanted_; }
  /// One of them starts.
  void started() { --wanted_; }

  /// A process has been lost with its node.
  void lost_with_node(const std::string& host) { ++nodes_[host].owed; }
  /// One runs on that node.
  void came(const std::string& host);
  /// Whether it is worth asking Slurm for the nodes of the job.
  bool wants_nodes(const Need& need, Clock::time_point now) const;

  struct NodeStart {
    std::string host;
    int count = 0;
    int grown = 0;  ///< By so many ranks the job is larger than before.
  };
  /// The next node on which to start processes, of those that the job has; none of `is_used`.
  /// `tasks`: of a node that is new.
  std::optional<NodeStart> next(const std::vector<std::string>& nodes, const Need& need, int tasks,
                                const std::function<bool(const std::string&)>& is_used,
                                Clock::time_point now);

 private:
  struct Node {
    int owed = 0;  ///< Processes that were lost with it, and have not come again.
    int tries = 0;
    Clock::time_point next = {};  ///< No sooner is another one.
    bool may_try(Clock::time_point now) const {
      return owed > 0 && tries < kMostTries && now >= next;
    }
  };

  int wanted_ = 0;
  std::map<std::string, Node> nodes_;
  Clock::time_point next_look_ = {};  ///< For new nodes.
};

}  // namespace hvd
