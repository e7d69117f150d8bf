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

Roster::Roster(RosterPlan plan)
    : plan_(plan),
      aim_(plan.size),
      nodes_(static_cast<std::size_t>(plan.processes)),
      since_(static_cast<std::size_t>(plan.processes)),
      slots_(static_cast<std::size_t>(plan.processes), kFree) {
  for (int process = 0; process < plan_.size; ++process) {
    last_.members.push_back({.process = process});
    members_.insert(process);
  }
  for (int i = 1; i <= plan_.reserve; ++i) gone_.insert(plan_.processes - i);
}

void Roster::add_process() {
  ++plan_.processes;
  nodes_.emplace_back();
  since_.push_back(0);
  slots_.push_back(kFree);
}

bool Roster::may_enter(int process) const {
  return process >= 0 && process < plan_.processes && lives(process);
}

void Roster::enter(int process, const std::string& node) {
  if (is_member(process)) is_open_ = false;
  nodes_[static_cast<std::size_t>(process)] = node;
  waiting_.insert(process);
}

void Roster::ended(int process) {
  if (is_member(process)) is_open_ = false;
  waits_since_.reset();
  gone_.insert(process);
  disputed_.erase(process);
  waiting_.erase(process);
  members_.erase(process);
}

void Roster::finish(int process) {
  const bool was_member = is_member(process);
  ended(process);
  if (was_member) (lost_.contains(process) ? disputed_ : finished_).insert(process);
}

void Roster::lose(int process) {
  lost_.insert(process);
  if (finished_.erase(process) != 0) disputed_.insert(process);
}

bool Roster::all_wait() const {
  return std::includes(waiting_.begin(), waiting_.end(), members_.begin(), members_.end());
}

int Roster::starting() const {
  int count = 0;
  for (int process = 0; process < plan_.processes; ++process) {
    const bool has_come = waiting_.contains(process) || is_member(process);
    count += lives(process) && !has_come ? 1 : 0;
  }
  return count;
}

std::optional<Status> Roster::verdict() const {
  if (!disputed_.empty()) return std::nullopt;
  if (members_.empty()) {
    return error(Code::kAborted, "the job ends: no rank is left that has the state of training");
  }
  // One that is still to come may have lost it.
  if (!finished_.empty() && all_wait()) {
    return error(Code::kAborted, "the job ends: a rank has finished its program already");
  }
  const int living = plan_.processes - size_of(gone_);
  if (living >= plan_.min_size) return std::nullopt;
  return error(Code::kAborted, "the job ends: {} process{} left, and it needs {} rank{}", living,
               living == 1 ? " is" : "es are", plan_.min_size, plan_.min_size == 1 ? "" : "s");
}

std::optional<Membership> Roster::begin(Clock::time_point now) {
  if (verdict() || !disputed_.empty() || !all_wait()) {
    waits_since_.reset();
    return std::nullopt;
  }
  const int size = std::min(size_of(waiting_), aim_);
  if (size < plan_.min_size) {
    waits_since_.reset();
    return std::nullopt;
  }
  if (!waits_since_) waits_since_ = now;
  if (size < aim_ && starting() > 0 && now - *waits_since_ < kPatience) return std::nullopt;
  waits_since_.reset();
  release_members(size);
  last_ = assign(size);
  members_.clear();
  finished_.clear();
  lost_.clear();
  for (const Membership::Member& member : last_.members) {
    members_.insert(member.process);
    waiting_.erase(member.process);
  }
  is_open_ = true;
  if (size == 1) met();
  return last_;
}

void Roster::release_members(int size) {
  // Rank 0, which has the state, is the last that could go.
  for (auto member = last_.members.rbegin(); size_of(members_) > size; ++member) {
    members_.erase(member->process);
  }
}

bool Roster::can_change() const {
  const int size = static_cast<int>(last_.members.size());
  const bool are_at_work = last_.epoch != 0 && !is_open_ && size_of(members_) == size &&
                           std::none_of(members_.begin(), members_.end(),
                                        [&](int process) { return waiting_.contains(process); });
  const bool is_wanted = size > aim_ || (size < aim_ && !waiting_.empty());
  return are_at_work && finished_.empty() && is_wanted;
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
  // Who must move anyway takes what is free.
  auto free = std::find(by_rank.begin(), by_rank.end(), kFree);
  for (const int process : moved) {
    *free = process;
    free = std::find(free, by_rank.end(), kFree);
  }
  settle_root(by_rank);
  return by_rank;
}

void Roster::settle_root(std::vector<int>& by_rank) const {
  const auto since = [&](int process) {
    return process == kFree ? ~std::uint64_t{0} : since_[static_cast<std::size_t>(process)];
  };
  const auto eldest = std::min_element(by_rank.begin(), by_rank.end(),
                                       [&](int a, int b) { return since(a) < since(b); });
  std::swap(by_rank.front(), *eldest);
}

std::vector<int> Roster::newcomers() const {
  std::set<std::string> missed;
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
  Membership membership{.epoch = last_.epoch + 1, .members = {}, .at_work = has_met_};
  for (const int process : by_rank) {
    if (!is_member(process)) since_[static_cast<std::size_t>(process)] = membership.epoch;
    membership.members.push_back({.process = process});
  }
  number_locally(membership);
  return membership;
}

void Roster::number_locally(Membership& membership) {
  std::map<std::string, std::vector<int>> by_node;
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

std::optional<int> Roster::process_of(std::uint64_t epoch, int rank) const {
  const bool is_member =
      epoch == last_.epoch && rank >= 0 && static_cast<std::size_t>(rank) < last_.members.size();
  if (!is_member) return std::nullopt;
  return last_.members[static_cast<std::size_t>(rank)].process;
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
