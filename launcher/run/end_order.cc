// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/end_order.h"

#include <algorithm>

#include "topology/launch_env.h"

namespace hvd {
namespace {

/// A lost rank that still runs (stopped, or cut off) ends later or never: then its victims count.
constexpr std::chrono::milliseconds kCauseLimit{500};

}  // namespace

void EndOrder::loses(int by, int lost) {
  if (lost == launch_env::kNobodyLost) {
    lost_by_.erase(by);
  } else {
    lost_by_[by] = lost;
  }
}

void EndOrder::ended(const RankEnded& report, Clock::time_point now) {
  waiting_.push_back({report, now + kCauseLimit});
}

bool EndOrder::waits(const Waiting& waiting, Clock::time_point now) const {
  if (waiting.report.status == 0 || now >= waiting.limit) return false;
  const auto lost = lost_by_.find(waiting.report.index);
  if (lost == lost_by_.end() || lost->second == waiting.report.index) return false;
  return !counted_.contains(lost->second);
}

std::vector<RankEnded> EndOrder::take(Clock::time_point now) {
  std::vector<RankEnded> taken;
  // An end may set others free that stand before it.
  for (bool found = true; found;) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& waiting) { return !waits(waiting, now); });
    found = next != waiting_.end();
    if (!found) break;
    counted_.insert(next->report.index);
    taken.push_back(next->report);
    waiting_.erase(next);
  }
  return taken;
}

std::optional<int> EndOrder::loss_of(int rank) const {
  const auto found = lost_by_.find(rank);
  return found == lost_by_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> EndOrder::first_loss_of(int rank) const {
  std::set<int> seen{rank};
  std::optional<int> lost = loss_of(rank);
  while (lost && seen.insert(*lost).second) {
    const auto next = loss_of(*lost);
    if (!next) break;
    lost = next;
  }
  const bool is_first = lost && *lost >= 0 && !loss_of(*lost);
  return is_first ? lost : std::nullopt;
}

std::optional<std::pair<int, int>> EndOrder::any_loss() const {
  // A program that gives up by itself is its own loss.
  const auto found = std::find_if(lost_by_.begin(), lost_by_.end(),
                                  [](const auto& loss) { return loss.first != loss.second; });
  if (found == lost_by_.end()) return std::nullopt;
  return *found;
}

Deadline EndOrder::next() const {
  if (waiting_.empty()) return kForever;
  return Deadline::at(waiting_.front().limit);
}

}  // namespace hvd
