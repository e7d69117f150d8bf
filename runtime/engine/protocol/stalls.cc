// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/stalls.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "engine/request/description.h"

namespace hvd {
namespace {

constexpr std::string_view kNewLine = "\n  ";
constexpr std::size_t kShownNames = 3;
constexpr std::size_t kShownRanks = 4;
constexpr std::size_t kShownGroups = 8;
/// Circles are looked for among so many groups: the oldest.
constexpr std::size_t kSearchedGroups = 64;

/// Tensors that wait for the same ranks; each rank of `ranks` waits for each of `missing`.
struct Group {
  RankSet missing;
  RankSet ranks;
  std::vector<const StalledTensor*> tensors;  ///< Oldest first.
};

std::vector<Group> group_by_missing(const std::vector<StalledTensor>& tensors) {
  std::vector<const StalledTensor*> oldest_first;
  oldest_first.reserve(tensors.size());
  for (const StalledTensor& tensor : tensors) oldest_first.push_back(&tensor);
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const auto* a, const auto* b) { return a->waited > b->waited; });
  std::vector<Group> groups;
  for (const StalledTensor* tensor : oldest_first) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& other) { return other.missing == tensor->missing; });
    if (group == groups.end()) group = groups.insert(groups.end(), {tensor->missing, {}, {}});
    if (group->ranks.words().empty()) group->ranks = tensor->ranks;
    group->ranks.add_all(tensor->ranks);
    group->tensors.push_back(tensor);
  }
  return groups;
}

std::string name_place(int rank, const RankPlaces& places) {
  const auto index = static_cast<std::size_t>(rank);
  std::string text = format_text("rank {} (host {}", rank, places.hosts[index]);
  if (index < places.pids.size() && places.pids[index] != 0) {
    text += format_text(", process {}", places.pids[index]);
  }
  return text + ")";
}

/// "rank 0 (host a, process 1), rank 3 (host b, process 2) and 8 more ranks".
std::string name_places(const RankSet& ranks, const RankPlaces& places) {
  const std::vector<int> list = ranks.ranks();
  std::string text;
  const std::size_t shown = list.size() <= kShownRanks + 1 ? list.size() : kShownRanks;
  for (std::size_t i = 0; i < shown; ++i) {
    text += format_text("{}{}", i == 0 ? "" : ", ", name_place(list[i], places));
  }
  if (shown < list.size()) text += format_text(" and {} more ranks", list.size() - shown);
  return text;
}

std::string describe_tensor(const StalledTensor& tensor) {
  std::string text = format_text("'{}' ({}", tensor.name, tensor.operation);
  if (tensor.process_set != 0) text += format_text(", process set {}", tensor.process_set);
  return text + ")";
}

std::string describe_group(const Group& group, const RankPlaces& places) {
  const auto count = group.tensors.size();
  const double seconds = static_cast<double>(group.tensors.front()->waited.count()) / 1000.0;
  std::string text =
      format_text("{} tensor{} for {}, for {:.1f} s:", count, count == 1 ? " waits" : "s wait",
                  name_places(group.missing, places), seconds);
  for (std::size_t i = 0; i < std::min(count, kShownNames); ++i) {
    text += format_text("{} {}", i == 0 ? "" : ",", describe_tensor(*group.tensors[i]));
  }
  if (count > kShownNames) text += format_text(" and {} more", count - kShownNames);
  return text;
}

/// A shortest way from the group back to itself, each group with ranks for which the one before
/// waits; empty: there is none.
std::vector<std::size_t> find_circle(const std::vector<Group>& groups, std::size_t start) {
  const std::size_t count = std::min(groups.size(), kSearchedGroups);
  std::vector<std::optional<std::size_t>> from(count);
  std::deque<std::size_t> open{start};
  while (!open.empty()) {
    const std::size_t at = open.front();
    open.pop_front();
    for (std::size_t next = 0; next < count; ++next) {
      if (from[next] || groups[at].missing.common(groups[next].ranks).empty()) continue;
      from[next] = at;
      if (next != start) {
        open.push_back(next);
        continue;
      }
      std::vector<std::size_t> circle{start};
      for (std::size_t i = at; i != start; i = *from[i]) circle.push_back(i);
      std::reverse(circle.begin() + 1, circle.end());
      return circle;
    }
  }
  return {};
}

int first_of(const RankSet& ranks) { return ranks.ranks().front(); }

/// The oldest of the group's tensors that the rank has submitted.
const StalledTensor& held_by(const Group& group, int rank) {
  const auto found =
      std::find_if(group.tensors.begin(), group.tensors.end(),
                   [&](const StalledTensor* tensor) { return tensor->ranks.contains(rank); });
  return found == group.tensors.end() ? *group.tensors.front() : **found;
}

std::string describe_circle(const std::vector<Group>& groups,
                            const std::vector<std::size_t>& circle, RankSet& shown) {
  std::vector<int> waits;  // in the tensor of its group, for the rank of the next
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const Group& before = groups[circle[(i + circle.size() - 1) % circle.size()]];
    waits.push_back(first_of(before.missing.common(groups[circle[i]].ranks)));
  }
  std::string text = "these ranks call in different orders:";
  for (std::size_t i = 0; i < circle.size(); ++i) {
    shown.add(waits[i]);
    text += format_text("{} rank {} waits in '{}' for rank {}", i == 0 ? "" : ",", waits[i],
                        held_by(groups[circle[i]], waits[i]).name, waits[(i + 1) % waits.size()]);
  }
  return text + "; submit the same tensors in the same order on every rank";
}

std::string describe_own_code(const RankSet& ranks, const RankPlaces& places) {
  const bool one = ranks.count() == 1;
  const int first = first_of(ranks);
  const auto index = static_cast<std::size_t>(first);
  std::string text = format_text(
      "{} {} not known to wait for a tensor: {} own code, or came to one later",
      name_places(ranks, places), one ? "is" : "are", one ? "it is in its" : "they are in their");
  if (index < places.pids.size() && places.pids[index] != 0) {
    text += format_text("; 'py-spy dump --pid {}' on host {} shows where", places.pids[index],
                        places.hosts[index]);
  }
  return text;
}

/// The work of the missing ranks themselves. The first `overdue` groups have waited for too long.
std::string describe_missing(const std::vector<Group>& groups, std::size_t overdue,
                             const RankSet& missing, const Stalls& stalls,
                             const RankPlaces& places) {
  std::string text;
  RankSet explained(static_cast<int>(places.hosts.size()));
  for (std::size_t i = 0; i < std::min(overdue, kSearchedGroups); ++i) {
    const auto circle = find_circle(groups, i);
    if (circle.empty()) continue;
    text += "\n  " + describe_circle(groups, circle, explained);
    break;
  }
  RankSet waiting(static_cast<int>(places.hosts.size()));
  for (const Group& group : groups) waiting.add_all(group.ranks);
  std::size_t lines = 0;
  for (const int rank : missing.common(waiting).without(explained).ranks()) {
    if (++lines > kShownRanks) break;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& g) { return g.ranks.contains(rank); });
    text += format_text("\n  rank {} waits in '{}' for {}", rank, held_by(*group, rank).name,
                        describe_ranks(group->missing));
  }
  const RankSet parted = missing.common(stalls.parted).without(waiting);
  if (!parted.empty()) {
    text += format_text("\n  {} {} called join or shutdown, and what came before is not submitted",
                        describe_ranks(parted), parted.count() == 1 ? "has" : "have");
  }
  const RankSet busy = missing.without(waiting).without(parted);
  if (!busy.empty()) text += "\n  " + describe_own_code(busy, places);
  return text;
}

}  // namespace

std::string describe_stalls(const Stalls& stalls, std::chrono::milliseconds patience,
                            const RankPlaces& places) {
  const std::vector<Group> groups = group_by_missing(stalls.tensors);
  RankSet missing(static_cast<int>(places.hosts.size()));
  std::string text;
  std::size_t shown = 0;
  std::size_t hidden = 0;
  std::size_t hidden_groups = 0;
  for (const Group& group : groups) {
    if (group.tensors.front()->waited < patience) break;  // oldest first
    missing.add_all(group.missing);
    if (shown == kShownGroups) {
      hidden += group.tensors.size();
      ++hidden_groups;
      continue;
    }
    text += format_text("{}{}", shown == 0 ? "" : "\n  ", describe_group(group, places));
    ++shown;
  }
  if (hidden != 0) text += format_text("\n  and {} that wait for others", hidden);
  const std::size_t overdue = shown + hidden_groups;
  return text + describe_missing(groups, overdue, missing, stalls, places);
}

std::string describe_end(const Stalls& stalls, std::chrono::milliseconds limit,
                         const RankPlaces& places) {
  std::string text = describe_stalls(stalls, limit, places);
  for (auto at = text.find(kNewLine); at != std::string::npos; at = text.find(kNewLine, at)) {
    text.replace(at, kNewLine.size(), "; ");
  }
  return format_text(
      "HVD_STALL_SHUTDOWN_TIME_SECONDS ({:.6g}) ends the job, since tensors have waited for so "
      "long: {}",
      static_cast<double>(limit.count()) / 1000.0, text);
}

bool StallPace::is_due(Clock::time_point now, const RankSet& missing) {
  if (missing.empty()) {
    missing_ = missing;
    return false;
  }
  const bool same = missing == missing_;
  if (any_ && now - last_ < (same ? next_ : warning_)) return false;
  const auto step = same ? next_ : warning_;
  next_ = std::max(warning_, std::min(2 * step, kMost));
  missing_ = missing;
  any_ = true;
  last_ = now;
  return true;
}

}  // namespace hvd
