// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "engine/control_message.h"
#include "transport/message_link.h"

namespace hvd {

/// The links of a node leader to its parent and child leaders, with heartbeats both ways.
/// A link that fails or falls silent is dropped, and its peer reported once.
/// Engine thread only.
class ControlTree {
 public:
  static constexpr int kParent = -1;

  struct Options {
    int size = 1;  ///< Ranks of the job.
    std::chrono::milliseconds heartbeat{500};
    std::chrono::milliseconds node_timeout{2'500};
  };

  ControlTree() = default;
  ControlTree(std::unique_ptr<Link> parent, std::vector<std::unique_ptr<Link>> children,
              const Options& options, Clock::time_point now);

  bool has_links() const { return !edges_.empty(); }
  bool has_parent() const { return !edges_.empty() && edges_.front().from == kParent; }

  void send_up(const ControlMessage& message);
  /// To every child leader.
  void send_down(const ControlMessage& message);
  /// To every neighbour.
  void flood(const ControlMessage& message);

  /// Calls received(from, message) for each whole message; `from` is kParent or a child's index.
  /// True when anything came or was sent.
  bool poll(const std::function<void(int from, ControlMessage message)>& received);
  /// Sends what is queued; true when nothing is left.
  bool flush();
  /// The time that poll() and beat() go by.
  void set_time(Clock::time_point now) { now_ = now; }
  /// Sends heartbeats that are due and drops neighbours that have been silent for too long.
  void beat();
  /// Peers whose links failed since the last call.
  std::vector<Lost> take_losses() { return std::exchange(losses_, {}); }
  bool has_losses() const { return !losses_.empty(); }

 private:
  struct Edge {
    int from = kParent;
    std::unique_ptr<MessageLink> link;  ///< Null once dropped.
    Clock::time_point heard;
    Clock::time_point spoke;
  };

  void send(Edge& edge, const Bytes& message);
  bool receive(Edge& edge, const std::function<void(int, ControlMessage)>& received);
  void drop(Edge& edge, std::string text);

  Options options_;
  std::vector<Edge> edges_;
  std::vector<Lost> losses_;
  Clock::time_point now_;
};

}  // namespace hvd
