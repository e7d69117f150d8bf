// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/wiring.h"
#include "engine/node_processes.h"
#include "engine/options.h"

namespace hvd {

/// A lost rank, which ends the epoch; the text is that which every rank gets.
struct Loss {
  int rank = 0;
  std::string text;
};

/// Decides what signs of trouble mean: a connection that was closed, a process that is stopped, a
/// failure of this rank's own. The epoch acts on it.
/// Under the progress lock.
class LossWatch {
 public:
  /// A closed lane may only mean that its other end has heard of a loss before us, and left: the
  /// pidfds and the tree get this long to say whose.
  static constexpr std::chrono::milliseconds kPatience{100};

  /// All outlive this object.
  LossWatch(const Communicator& world, const std::vector<PeerInfo>& peers,
            const EngineOptions& options)
      : world_(world), peers_(peers), options_(options) {}

  /// "rank 3 on host b (process 17) is lost: <cause>"
  Loss loss_of(int rank, const std::string& cause) const;

  /// The rank may be lost, for this reason: a suspicion, of which the first that names a peer
  /// counts, else the first.
  void suspect(Loss suspicion, Clock::time_point now);
  bool suspects() const { return suspicion_.has_value(); }
  /// The suspicion whose time has come, once. While some host leaves something unanswered
  /// (`awaits_answer`) the silence of that one may be the cause: it gets until the link timeout.
  std::optional<Loss> take_due(Clock::time_point now, bool awaits_answer);

  /// Warns of a process that has been stopped for two looks. The loss, where it is stopped for
  /// longer than HVD_SILENCE_TIMEOUT_SECONDS.
  std::optional<Loss> judge(const NodeProcesses::Stopped& stopped) const;
  /// The loss of the first rank of the node, where that is stopped. News of other nodes come
  /// through it: a connection that ended is most often of ranks that have given it up.
  std::optional<Loss> blame_first_of_node(const NodeProcesses& processes) const;

 private:
  struct Suspicion {
    Loss loss;
    Clock::time_point due;
  };
  const Communicator& world_;
  const std::vector<PeerInfo>& peers_;
  const EngineOptions& options_;
  std::optional<Suspicion> suspicion_;
};

}  // namespace hvd
