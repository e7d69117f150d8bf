// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/control_tree.h"

#include <algorithm>

#include "base/log.h"

namespace hvd {

ControlTree::ControlTree(std::unique_ptr<Link> parent, std::vector<std::unique_ptr<Link>> children,
                         const Options& options, Clock::time_point now)
    : options_(options), now_(now) {
  const auto connect = [&](int from, std::unique_ptr<Link> link) {
    Edge& edge = edges_.emplace_back();
    edge.from = from;
    edge.link = std::make_unique<MessageLink>(std::move(link));
    edge.heard = now;
    edge.spoke = now;
  };
  edges_.reserve(children.size() + 1);
  if (parent != nullptr) connect(kParent, std::move(parent));
  for (std::size_t i = 0; i < children.size(); ++i) {
    connect(static_cast<int>(i), std::move(children[i]));
  }
}

void ControlTree::send_up(const ControlMessage& message) {
  if (has_parent()) send(edges_.front(), encode(message));
}

void ControlTree::send_down(const ControlMessage& message) {
  const Bytes bytes = encode(message);
  for (Edge& edge : edges_) {
    if (edge.from != kParent) send(edge, bytes);
  }
}

void ControlTree::flood(const ControlMessage& message) {
  const Bytes bytes = encode(message);
  for (Edge& edge : edges_) send(edge, bytes);
}

void ControlTree::hand_on(const ControlMessage& message, int from) {
  const Bytes bytes = encode(message);
  for (Edge& edge : edges_) {
    if (edge.from != from) queue(edge, bytes);
  }
}

bool ControlTree::queue(Edge& edge, const Bytes& message) {
  if (edge.link == nullptr) return false;
  edge.spoke = now_;
  const Status status = edge.link->queue(message);
  if (!status.is_ok()) drop(edge, status.message());
  return status.is_ok();
}

void ControlTree::send(Edge& edge, const Bytes& message) {
  if (!queue(edge, message)) return;
  if (const Status status = edge.link->flush(); !status.is_ok()) drop(edge, status.message());
}

bool ControlTree::poll(const std::function<void(int, ControlMessage)>& received) {
  bool moved = false;
  for (Edge& edge : edges_) moved = receive(edge, received) || moved;
  return moved;
}

bool ControlTree::receive(Edge& edge, const std::function<void(int, ControlMessage)>& received) {
  bool moved = false;
  for (int taken = 0; taken < kMostAtOnce && edge.link != nullptr; ++taken) {
    if (edge.link->has_unsent()) {
      if (const Status status = edge.link->flush(); !status.is_ok()) {
        drop(edge, status.message());
        break;
      }
    }
    auto bytes = edge.link->receive();
    if (!bytes.is_ok()) {
      drop(edge, bytes.status().message());
      break;
    }
    if (!bytes.value()) break;
    edge.heard = now_;
    edge.has_warned = false;
    moved = true;
    auto message = decode_control_message(*bytes.value(), options_.size);
    if (!message.is_ok()) {
      drop(edge, message.status().message());
      break;
    }
    if (auto* farewell = std::get_if<Farewell>(&message.value())) {
      edge.farewell = std::move(farewell->text);
    } else if (!std::holds_alternative<Heartbeat>(message.value())) {
      received(edge.from, std::move(message).value());
    }
    if (edge.link != nullptr && !edge.link->may_have_more()) break;
  }
  return moved;
}

bool ControlTree::flush() {
  bool empty = true;
  for (Edge& edge : edges_) {
    if (edge.link == nullptr || !edge.link->has_unsent()) continue;
    if (const Status status = edge.link->flush(); !status.is_ok()) {
      drop(edge, status.message());
    } else if (edge.link->has_unsent()) {
      empty = false;
    }
  }
  return empty;
}

void ControlTree::beat() {
  for (Edge& edge : edges_) {
    if (edge.link == nullptr) continue;
    const Link& link = edge.link->link();
    if (const auto unanswered = link.unanswered(); unanswered >= options_.link_timeout) {
      drop(edge, link.describe_silence(unanswered));
    } else if (is_mute(edge)) {
      drop(edge, format_text("its process said nothing for {:.0f} s though its host answers: it is "
                             "stopped, or hangs; HVD_SILENCE_TIMEOUT_SECONDS allows {:.0f}",
                             std::chrono::duration<double>(now_ - edge.heard).count(),
                             std::chrono::duration<double>(options_.silence_timeout).count()));
    } else if (now_ - edge.spoke >= options_.heartbeat && !edge.link->has_unsent()) {
      // A neighbour that does not read finds enough to read; another heartbeat would only pile up.
      send(edge, encode(Heartbeat{}));
    }
  }
}

bool ControlTree::awaits_answer() const {
  return std::any_of(edges_.begin(), edges_.end(), [](const Edge& edge) {
    return edge.link != nullptr && edge.link->link().unanswered().count() > 0;
  });
}

bool ControlTree::is_mute(Edge& edge) {
  const auto silence = now_ - edge.heard;
  if (silence >= kLongSilence && !std::exchange(edge.has_warned, true)) warn_of(edge, silence);
  return options_.silence_timeout.count() != 0 && silence >= options_.silence_timeout;
}

void ControlTree::warn_of(Edge& edge, Clock::duration silence) {
  const Link& link = edge.link->link();
  log(LogLevel::kWarning, "stall",
      "rank {} on host {} has said nothing for {:.0f} s, but its host answers: the process is "
      "stopped (a signal, a debugger, a suspended job), swapped out or hangs; the job waits for it",
      link.peer_rank(), link.peer_host(), std::chrono::duration<double>(silence).count());
}

/// What a neighbour said last may lie behind a connection that can no longer be written to.
void ControlTree::take_farewell(Edge& edge) const {
  for (int taken = 0; taken < kMostAtOnce && edge.farewell.empty(); ++taken) {
    auto bytes = edge.link->receive();
    if (!bytes.is_ok() || !bytes.value()) return;
    auto message = decode_control_message(*bytes.value(), options_.size);
    if (!message.is_ok()) return;
    if (auto* farewell = std::get_if<Farewell>(&message.value())) {
      edge.farewell = std::move(farewell->text);
    }
  }
}

void ControlTree::drop(Edge& edge, std::string text) {
  const int rank = edge.link->link().peer_rank();
  take_farewell(edge);
  if (!edge.farewell.empty()) text = edge.farewell;
  losses_.push_back({rank, format_text("rank {} on host {} is lost: {}", rank,
                                       edge.link->link().peer_host(), text)});
  edge.link->link().shut_down();
  dropped_.push_back(std::move(*edge.link).take_link());
  edge.link.reset();
}

}  // namespace hvd
