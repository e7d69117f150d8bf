// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "engine/protocol/control_message.h"
#include "transport/message_link.h"

namespace hvd {

/// The links of a node leader to its parent and child leaders, with heartbeats both ways.
/// A link that fails is dropped, and its peer reported once; so is one whose host does not answer,
/// soon, and one whose process says nothing though its host answers (it is stopped, or hangs),
/// after minutes.
/// Engine thread only.
class ControlTree {
 public:
  static constexpr int kParent = -1;

  struct Options {
    int size = 1;  ///< Ranks of the job.
    std::chrono::milliseconds heartbeat{500};
    std::chrono::milliseconds link_timeout{3'000};       ///< For the answer of a host.
    std::chrono::milliseconds silence_timeout{300'000};  ///< For a word of its process; 0: none.
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
  static constexpr int kNobody = -2;
  /// To every neighbour except the one whom it is from, with the next flush(): several go together.
  void hand_on(const ControlMessage& message, int from = kNobody);

  /// Calls received(from, message) for each whole message; `from` is kParent or a child's index.
  /// True when anything came or was sent.
  bool poll(const std::function<void(int from, ControlMessage message)>& received);
  /// Sends what is queued; true when nothing is left.
  bool flush();
  /// The time that poll() and beat() go by: without that in which this process was stopped.
  void set_time(Clock::time_point now) { now_ = now; }
  /// Sends heartbeats that are due, drops neighbours that have been silent for too long, and warns
  /// of those that are on the way there.
  void beat();
  /// True while the host of a neighbour has left something unanswered.
  bool awaits_answer() const;
  /// Peers whose links failed since the last call.
  std::vector<Lost> take_losses() { return std::exchange(losses_, {}); }
  bool has_losses() const { return !losses_.empty(); }

 private:
  /// A silence that is worth a warning.
  static constexpr std::chrono::seconds kLongSilence{10};
  /// Messages taken from one neighbour before others have their turn.
  static constexpr int kMostAtOnce = 256;
  struct Edge {
    int from = kParent;
    std::unique_ptr<MessageLink> link;  ///< Null once dropped.
    Clock::time_point heard;
    Clock::time_point spoke;
    bool has_warned = false;  ///< Of this silence.
    std::string farewell = {};
  };

  void send(Edge& edge, const Bytes& message);
  /// True where the link has taken the message; else the edge is dropped.
  bool queue(Edge& edge, const Bytes& message);
  bool receive(Edge& edge, const std::function<void(int, ControlMessage)>& received);
  void take_farewell(Edge& edge) const;
  void drop(Edge& edge, std::string text);
  /// True when the neighbour's process has been silent for too long.
  bool is_mute(Edge& edge);
  void warn_of(Edge& edge, Clock::duration silence);

  Options options_;
  std::vector<Edge> edges_;
  /// Shut down, and open to the end: the number of a closed descriptor would soon be another's,
  /// and the child of a fork closes those of the engine.
  std::vector<std::unique_ptr<Link>> dropped_;
  std::vector<Lost> losses_;
  Clock::time_point now_;
};

}  // namespace hvd
