// SPDX-License-Identifier: Apache-2.0
#include "engine/leader.h"

#include "engine/board.h"

namespace hvd {

Leader::Leader(RankSet subtree, int size)
    : subtree_(std::move(subtree)), subtree_count_(subtree_.count()), size_(size) {}

void Leader::member_ready(int rank, std::uint32_t id, Clock::time_point now) {
  if (id >= ids_.size()) return;  // not from our code: an id is used only after the log named it
  Id& entry = ids_[id];
  if (entry.partial) {
    RankSet ranks(size_);
    ranks.add(rank);
    entry.have.add(rank);
    up_.emplace_back(Partial{id, std::move(ranks)});
    return;
  }
  if (entry.count == 0) entry.since = now;
  entry.have.add(rank);
  if (++entry.count == subtree_count_) ready_.ids.push_back(id);
}

void Leader::child_ready(const RankSet& child, const Ready& ready, Clock::time_point now) {
  for (const std::uint32_t id : ready.ids) {
    if (id < ids_.size()) add(id, child, now);
  }
}

void Leader::add(std::uint32_t id, const RankSet& ranks, Clock::time_point now) {
  Id& entry = ids_[id];
  if (entry.partial) {
    entry.have.add_all(ranks);
    up_.emplace_back(Partial{id, ranks});
    return;
  }
  if (entry.count == 0) entry.since = now;
  entry.have.add_all(ranks);
  entry.count += ranks.count();
  if (entry.count == subtree_count_) ready_.ids.push_back(id);
}

void Leader::turn_partial(std::uint32_t id) {
  Id& entry = ids_[id];
  if (entry.partial) return;
  entry.partial = true;
  if (entry.count > 0) up_.emplace_back(Partial{id, entry.have});
}

void Leader::pass_up(ControlMessage message) {
  if (const auto* announce = std::get_if<Announce>(&message)) {
    const auto found = by_name_.find(announce->name);
    if (found != by_name_.end()) turn_partial(found->second);
  } else if (const auto* partial = std::get_if<Partial>(&message)) {
    if (partial->id < ids_.size()) turn_partial(partial->id);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    tell_all_of(leave->rank);
  }
  up_.push_back(std::move(message));
}

/// What a rank announced before it left still counts, so it must reach the root first.
void Leader::tell_all_of(int rank) {
  for (std::uint32_t id = 0; id < ids_.size(); ++id) {
    if (ids_[id].count != subtree_count_ && ids_[id].have.contains(rank)) turn_partial(id);
  }
  if (!ready_.ids.empty()) up_.emplace_back(std::exchange(ready_, {}));
}

void Leader::follow(const ControlMessage& entry) {
  if (const auto* define = std::get_if<Define>(&entry)) {
    if (define->id >= Board::kMaxIds) return;
    if (define->id >= ids_.size()) ids_.resize(define->id + 1);
    Id& id = ids_[define->id];
    id.name = define->name;
    if (id.have.words().empty()) reset(id);
    by_name_[define->name] = define->id;
  } else if (const auto* run = std::get_if<Run>(&entry)) {
    for (const std::uint32_t id : run->ids) {
      if (id < ids_.size()) reset(ids_[id]);
    }
  } else if (const auto* failure = std::get_if<Failure>(&entry)) {
    const auto found = by_name_.find(failure->name);
    if (found != by_name_.end()) reset(ids_[found->second]);
  } else if (std::holds_alternative<Left>(entry)) {
    any_left_ = true;
    for (std::uint32_t id = 0; id < ids_.size(); ++id) {
      if (ids_[id].count != subtree_count_) turn_partial(id);
    }
  }
}

void Leader::reset(Id& id) {
  id.have = RankSet(size_);
  id.count = 0;
  id.partial = any_left_;
}

void Leader::give_up_waiting(Clock::time_point now, std::chrono::milliseconds patience) {
  for (std::uint32_t id = 0; id < ids_.size(); ++id) {
    const Id& entry = ids_[id];
    if (entry.partial || entry.count == 0 || entry.count == subtree_count_) continue;
    if (now - entry.since >= patience) turn_partial(id);
  }
}

std::vector<ControlMessage> Leader::take_up() {
  std::vector<ControlMessage> up = std::exchange(up_, {});
  if (!ready_.ids.empty()) up.emplace_back(std::exchange(ready_, {}));
  return up;
}

}  // namespace hvd
