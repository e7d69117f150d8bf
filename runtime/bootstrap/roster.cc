// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/roster.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "bootstrap/store.h"

namespace hvd {
namespace {

constexpr int kFree = -1;

int size_of(const std::set<int>& processes) { return static_cast<int>(processes.size()); }

}  // namespace

Roster::Roster(RosterPlan plan) : plan_(std::move(plan)), slots_(plan_.nodes.size(), kFree) {
  for (int process = 0; process < plan_.size; ++process) {
    last_.members.push_back({.process = process});
    members_.insert(process);
  }
}

bool Roster::may_enter(int process) const {
  return process >= 0 && static_cast<std::size_t>(process) < plan_.nodes.size() && lives(process);
}

void Roster::enter(int process) {
  if (is_member(process)) is_open_ = false;
  waiting_.insert(process);
}

void Roster::ended(int process) {
  if (is_member(process)) is_open_ = false;
  gone_.insert(process);
  waiting_.erase(process);
  members_.erase(process);
}

void Roster::finish(int process) {
  has_finished_ = has_finished_ || is_member(process);
  ended(process);
}

int Roster::starting() const {
  int count = 0;
  for (int process = 0; process < static_cast<int>(plan_.nodes.size()); ++process) {
    const bool has_come = waiting_.contains(process) || is_member(process);
    count += lives(process) && !has_come ? 1 : 0;
  }
  return count;
}

std::optional<Status> Roster::verdict() const {
  if (has_finished_) {
    return error(Code::kAborted, "the job ends: a rank has finished its program already");
  }
  if (members_.empty()) {
    return error(Code::kAborted, "the job ends: no rank is left that has the state of training");
  }
  const int living = static_cast<int>(plan_.nodes.size()) - size_of(gone_);
  if (living >= plan_.min_size) return std::nullopt;
  return error(Code::kAborted, "the job ends: {} process{} left, and it needs {} rank{}", living,
               living == 1 ? " is" : "es are", plan_.min_size, plan_.min_size == 1 ? "" : "s");
}

std::optional<Membership> Roster::begin(Clock::time_point now) {
  const bool all_wait =
      std::includes(waiting_.begin(), waiting_.end(), members_.begin(), members_.end());
  if (verdict() || !all_wait) {
    waits_since_.reset();
    return std::nullopt;
  }
  const int size = std::min(size_of(waiting_), plan_.size);
  if (size < plan_.min_size) {
    waits_since_.reset();
    return std::nullopt;
  }
  if (!waits_since_) waits_since_ = now;
  if (size < plan_.size && starting() > 0 && now - *waits_since_ < kPatience) return std::nullopt;
  waits_since_.reset();
  last_ = assign(size);
  members_.clear();
  for (const Membership::Member& member : last_.members) {
    members_.insert(member.process);
    waiting_.erase(member.process);
  }
  is_open_ = true;
  return last_;
}

Deadline Roster::next() const {
  return waits_since_ ? Deadline::at(*waits_since_ + kPatience) : kForever;
}

std::vector<int> Roster::kept_ranks(int size) const {
  std::vector<int> by_rank(static_cast<std::size_t>(size), kFree);
  std::vector<int> moved;
  for (std::size_t rank = 0; rank < last_.members.size(); ++rank) {
    const int process = last_.members[rank].process;
    if (!is_member(process)) continue;
    if (rank < by_rank.size()) {
      by_rank[rank] = process;
    } else {
      moved.push_back(process);
    }
  }
  // Who must move anyway takes what is free; rank 0 needs a survivor, whoever it is.
  auto free = std::find(by_rank.begin(), by_rank.end(), kFree);
  for (const int process : moved) {
    *free = process;
    free = std::find(free, by_rank.end(), kFree);
  }
  if (by_rank.front() != kFree) return by_rank;
  const auto survivor =
      std::find_if(by_rank.begin(), by_rank.end(), [](int process) { return process != kFree; });
  if (survivor != by_rank.end()) std::swap(by_rank.front(), *survivor);
  return by_rank;
}

std::vector<int> Roster::newcomers() const {
  std::set<int> missed;
  for (const Membership::Member& member : last_.members) {
    if (!is_member(member.process)) missed.insert(node_of(member.process));
  }
  std::vector<int> found;
  std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(found),
               [&](int process) { return !is_member(process); });
  std::stable_partition(found.begin(), found.end(),
                        [&](int process) { return missed.contains(node_of(process)); });
  return found;
}

Membership Roster::assign(int size) {
  std::vector<int> by_rank = kept_ranks(size);
  const std::vector<int> others = newcomers();
  auto next = others.begin();
  for (int& process : by_rank) {
    if (process == kFree) process = *next++;
  }
  Membership membership{.epoch = last_.epoch + 1, .members = {}};
  for (const int process : by_rank) membership.members.push_back({.process = process});
  number_locally(membership);
  return membership;
}

void Roster::number_locally(Membership& membership) {
  std::map<int, std::vector<int>> by_node;
  for (const Membership::Member& member : membership.members) {
    by_node[node_of(member.process)].push_back(member.process);
  }
  for (auto& [node, processes] : by_node) {
    std::set<int> taken;
    for (const int process : processes) {
      int& slot = slots_[static_cast<std::size_t>(process)];
      if (!is_member(process)) slot = kFree;
      if (slot != kFree) taken.insert(slot);
    }
    for (const int process : processes) {
      int& slot = slots_[static_cast<std::size_t>(process)];
      if (slot != kFree) continue;
      for (slot = 0; taken.contains(slot);) ++slot;
      taken.insert(slot);
    }
    std::sort(processes.begin(), processes.end(), [&](int a, int b) {
      return slots_[static_cast<std::size_t>(a)] < slots_[static_cast<std::size_t>(b)];
    });
  }
  for (Membership::Member& member : membership.members) {
    const std::vector<int>& processes = by_node.at(node_of(member.process));
    const auto found = std::find(processes.begin(), processes.end(), member.process);
    member.local_rank = static_cast<int>(found - processes.begin());
    member.local_size = static_cast<int>(processes.size());
  }
}

std::string Roster::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < last_.members.size(); ++rank) {
    const int process = last_.members[rank].process;
    if (is_member(process) && !waiting_.contains(process)) ranks.push_back(static_cast<int>(rank));
  }
  return name_ranks(ranks);
}

}  // namespace hvd
