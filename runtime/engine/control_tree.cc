// SPDX-License-Identifier: Apache-2.0
#include "engine/control_tree.h"

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

void ControlTree::send(Edge& edge, const Bytes& message) {
  if (edge.link == nullptr) return;
  edge.spoke = now_;
  if (const Status status = edge.link->send(message); !status.is_ok()) {
    drop(edge, status.message());
  }
}

bool ControlTree::poll(const std::function<void(int, ControlMessage)>& received) {
  bool moved = false;
  for (Edge& edge : edges_) moved = receive(edge, received) || moved;
  return moved;
}

bool ControlTree::receive(Edge& edge, const std::function<void(int, ControlMessage)>& received) {
  bool moved = false;
  while (edge.link != nullptr) {
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
    moved = true;
    auto message = decode_control_message(*bytes.value(), options_.size);
    if (!message.is_ok()) {
      drop(edge, message.status().message());
      break;
    }
    if (!std::holds_alternative<Heartbeat>(message.value())) {
      received(edge.from, std::move(message).value());
    }
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
    if (now_ - edge.heard >= options_.node_timeout) {
      drop(edge, format_text("silent for {:.1f} s: the process, the node or the network is down",
                             std::chrono::duration<double>(now_ - edge.heard).count()));
      continue;
    }
    if (now_ - edge.spoke >= options_.heartbeat) send(edge, encode(Heartbeat{}));
  }
}

void ControlTree::drop(Edge& edge, std::string text) {
  const int rank = edge.link->link().peer_rank();
  losses_.push_back({rank, format_text("rank {} on host {} is lost: {}", rank,
                                       edge.link->link().peer_host(), text)});
  edge.link.reset();
}

}  // namespace hvd
