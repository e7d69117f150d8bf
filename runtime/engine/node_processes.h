// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/wiring.h"
#include "collective/communicator.h"

namespace hvd {

/// State of the processes of this rank's node, from the kernel: which have ended, and which are
/// stopped (by a signal, a debugger, a suspended job). Looks, and does nothing about it.
/// Under the progress lock.
class NodeProcesses {
 public:
  /// How often the processes of the node are looked at; one that is stopped in two looks is
  /// reported.
  static constexpr std::chrono::seconds kLookInterval{5};

  /// `world`, `peers` and `node` outlive this object.
  NodeProcesses(const Communicator& world, const std::vector<PeerInfo>& peers,
                const NodeGroup& node);

  /// A process without a pidfd whose lock says that it has ended, once for each: its local rank.
  std::optional<std::size_t> take_ended_by_lock();
  /// True for a rank of the job that can no longer write into this rank's memory: it runs on
  /// another node, or has ended. `is_lost`: the answer where the kernel does not tell.
  bool has_ended(int rank, bool is_lost) const;

  struct Stopped {
    int rank = 0;
    int looks = 0;  ///< How many times in a row it was found so.
    std::string_view stop;
  };
  /// The processes that are stopped, where a look is due; the first rank of the node looks at all
  /// others, the second at the first. Looks are counted, not time: while this process is stopped
  /// itself it does not look.
  std::vector<Stopped> look_if_due(Clock::time_point now);
  /// As describe_stop() for the first rank of the node; empty: it runs, or nothing is known of it.
  std::string_view stop_of_first() const;

  /// How this rank learns of the end of others on its node, for people; a line, or nothing.
  std::string describe(std::chrono::milliseconds tick) const;

 private:
  std::string_view stop_of(std::size_t local_rank) const;
  const std::vector<int>& local_ranks() const {
    return world_.nodes[static_cast<std::size_t>(world_.node)];
  }

  const Communicator& world_;
  const std::vector<PeerInfo>& peers_;
  const NodeGroup& node_;
  Clock::time_point next_look_;
  std::map<std::size_t, int> stopped_looks_;  ///< By local rank.
  /// Local ranks that live and have no pidfd: their locks are looked at in each tick.
  std::vector<std::size_t> watched_by_lock_;
};

}  // namespace hvd
