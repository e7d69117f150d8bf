// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/growth.h"

#include <algorithm>

namespace hvd {

void Growth::aim_changed(int change, int missing) {
  // Where nobody was given back yet nobody is missing.
  wanted_ = std::clamp(wanted_ + change, 0, std::max(missing, 0));
}

void Growth::came(const std::string& host) {
  Node& node = nodes_[host];
  node.owed = std::max(node.owed - 1, 0);
}

bool Growth::wants_nodes(const Need& need, Clock::time_point now) const {
  const bool has_one = std::any_of(nodes_.begin(), nodes_.end(),
                                   [&](const auto& entry) { return entry.second.may_try(now); });
  return (need.missing > 0 && has_one) || (need.aim < need.max_size && now >= next_look_);
}

std::optional<Growth::NodeStart> Growth::next(
    const std::vector<std::string>& nodes, const Need& need, int tasks,
    const std::function<bool(const std::string&)>& is_used, Clock::time_point now) {
  next_look_ = now + kBetweenLooks;
  const int missing = std::max(need.missing, 0);
  const int room = missing + std::max(need.max_size - need.aim, 0);
  for (const std::string& host : nodes) {
    if (is_used(host)) continue;
    const auto [entry, is_new] = nodes_.try_emplace(host);
    Node& node = entry->second;
    if (is_new) node.owed = tasks;
    const int count = std::min(node.owed, room);
    if (count == 0 || !node.may_try(now)) continue;
    node.next = now + kFirstPause * (1 << node.tries);
    ++node.tries;
    return NodeStart{host, count, std::max(count - missing, 0)};
  }
  return std::nullopt;
}

}  // namespace hvd
