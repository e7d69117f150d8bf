// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/leader.h"

#include <utility>

#include "engine/protocol/board.h"

namespace hvd {

Leader::Leader(RankSet subtree, int size) : subtree_(std::move(subtree)), size_(size) {
  sets_.push_back({RankSet::all(size), subtree_.count()});
}

void Leader::member_ready(int rank, std::uint32_t id, Clock::time_point now) {
  if (id >= ids_.size()) return;  // not from our code: an id is used only after the log named it
  Id& entry = ids_[id];
  if (entry.partial) {
    RankSet ranks(size_);
    ranks.add(rank);
    up_.emplace_back(Partial{id, std::move(ranks)});
    return;
  }
  if (entry.count == 0) entry.since = now;
  entry.have.add(rank);
  if (++entry.count == entry.wanted) ready_.ids.push_back(id);
}

void Leader::child_ready(const RankSet& child, const Ready& ready, Clock::time_point now) {
  for (const std::uint32_t id : ready.ids) {
    if (id >= ids_.size()) continue;
    const int process_set = ids_[id].process_set;
    if (process_set == 0) {
      add(id, child, now);
    } else {
      add(id, child.common(sets_[static_cast<std::size_t>(process_set)].ranks), now);
    }
  }
}

void Leader::add(std::uint32_t id, const RankSet& ranks, Clock::time_point now) {
  Id& entry = ids_[id];
  if (entry.partial) {
    up_.emplace_back(Partial{id, ranks});
    return;
  }
  if (entry.count == 0) entry.since = now;
  entry.have.add_all(ranks);
  entry.count += ranks.count();
  if (entry.count == entry.wanted) ready_.ids.push_back(id);
}

void Leader::turn_partial(Id& entry, Clock::duration waited) {
  if (entry.partial) return;
  entry.partial = true;
  const auto id = static_cast<std::uint32_t>(&entry - ids_.data());
  if (entry.count > 0) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
    up_.emplace_back(Partial{id, entry.have, static_cast<std::uint32_t>(ms)});
  }
}

Leader::Set* Leader::find_set(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  return index < sets_.size() ? &sets_[index] : nullptr;
}

Leader::Id* Leader::find(int process_set, const std::string& name) {
  const auto index = static_cast<std::size_t>(process_set);
  if (index >= sets_.size()) return nullptr;
  const auto found = sets_[index].ids.find(name);
  return found == sets_[index].ids.end() ? nullptr : &ids_[found->second];
}

void Leader::pass_up(ControlMessage message) {
  if (const auto* announce = std::get_if<Announce>(&message)) {
    if (Id* id = find(announce->description.process_set, announce->name)) turn_partial(*id);
  } else if (const auto* partial = std::get_if<Partial>(&message)) {
    if (partial->id < ids_.size()) turn_partial(ids_[partial->id]);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    tell_all_of(leave->rank);
  } else if (const auto* joining = std::get_if<Joining>(&message)) {
    tell_all_of(joining->rank);
  } else if (const auto* urge = std::get_if<Urge>(&message)) {
    Set* set = find_set(urge->process_set);
    if (set == nullptr || !set->is_frozen || std::exchange(set->has_urged, true)) return;
  } else if (const auto* evicted = std::get_if<Evicted>(&message)) {
    evicted_ += evicted->ranks;
    if (evicted_ < static_cast<std::uint32_t>(subtree_.count())) return;
    message = Evicted{std::exchange(evicted_, 0)};
    // What ranks announced by bits before comes first.
    if (!ready_.ids.empty()) up_.emplace_back(std::exchange(ready_, {}));
  }
  up_.push_back(std::move(message));
}

/// What a rank announced before it left or joined still counts, so it must reach the root first.
void Leader::tell_all_of(int rank) {
  for (Id& entry : ids_) {
    if (is_unfinished(entry) && entry.have.contains(rank)) turn_partial(entry);
  }
  if (!ready_.ids.empty()) up_.emplace_back(std::exchange(ready_, {}));
}

void Leader::follow(const ControlMessage& entry) {
  if (const auto* definition = std::get_if<Define>(&entry)) {
    define(*definition);
  } else if (const auto* run = std::get_if<Run>(&entry)) {
    for (const std::uint32_t id : run->ids) {
      if (id < ids_.size()) reset(ids_[id]);
    }
    if (!run->name.empty()) {
      if (Id* id = find(run->process_set, run->name)) reset(*id);
    }
  } else if (const auto* failure = std::get_if<Failure>(&entry)) {
    if (Id* id = find(failure->process_set, failure->name)) reset(*id);
  } else if (std::holds_alternative<Left>(entry)) {
    any_left_ = true;
    for (Id& id : ids_) {
      if (is_unfinished(id)) turn_partial(id);
    }
  } else if (const auto* added = std::get_if<SetAdded>(&entry)) {
    const auto index = static_cast<std::size_t>(added->process_set);
    if (index > sets_.size()) return;  // not from our code: sets are numbered in order
    if (index == sets_.size()) sets_.emplace_back();
    sets_[index] = {added->ranks, subtree_.common(added->ranks).count()};
  } else if (const auto* removed = std::get_if<SetRemoved>(&entry)) {
    remove_set(removed->process_set);
  } else if (const auto* joined = std::get_if<Joined>(&entry)) {
    turn_set_partial(joined->process_set);
  } else if (const auto* end = std::get_if<JoinEnd>(&entry)) {
    const auto index = static_cast<std::size_t>(end->process_set);
    if (index < sets_.size()) sets_[index].any_joined = false;
  } else if (const auto* frozen = std::get_if<Frozen>(&entry)) {
    if (Set* set = find_set(frozen->process_set)) {
      set->is_frozen = true;
      set->has_urged = false;
    }
  } else if (const auto* thawed = std::get_if<Thawed>(&entry)) {
    if (Set* set = find_set(thawed->process_set)) set->is_frozen = false;
  } else if (const auto* evicted = std::get_if<Evict>(&entry)) {
    evict(*evicted);
  }
}

void Leader::turn_set_partial(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  if (index >= sets_.size()) return;
  sets_[index].any_joined = true;
  for (Id& id : ids_) {
    if (id.process_set == process_set && is_unfinished(id)) turn_partial(id);
  }
}

void Leader::define(const Define& define) {
  const auto index = static_cast<std::size_t>(define.description.process_set);
  if (define.id >= Board::kMaxIds || index >= sets_.size()) return;
  if (define.id >= ids_.size()) ids_.resize(define.id + 1);
  Id& id = ids_[define.id];
  Set& set = sets_[index];
  set.ids[define.name] = define.id;
  if (id.name == define.name && id.process_set == define.description.process_set &&
      !id.have.words().empty()) {
    return;
  }
  id.name = define.name;
  id.process_set = define.description.process_set;
  id.wanted = set.wanted;
  id.have = RankSet(size_);
  reset(id);
}

/// A bit that is on its way still means the name, and goes up with the rank.
void Leader::evict(const Evict& evict) {
  for (const std::uint32_t index : evict.ids) {
    if (index >= ids_.size()) continue;
    Id& id = ids_[index];
    const auto set = static_cast<std::size_t>(id.process_set);
    if (set < sets_.size()) sets_[set].ids.erase(id.name);
    id.name.clear();
    if (is_unfinished(id)) turn_partial(id);
    id.partial = true;
  }
}

void Leader::remove_set(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  if (index == 0 || index >= sets_.size()) return;
  for (const auto& [name, id] : sets_[index].ids) ids_[id] = Id{};
  sets_[index] = Set{};
}

void Leader::reset(Id& id) {
  id.have.clear();
  id.count = 0;
  id.partial = any_left_ || sets_[static_cast<std::size_t>(id.process_set)].any_joined;
}

void Leader::give_up_waiting(Clock::time_point now, std::chrono::milliseconds patience) {
  for (Id& entry : ids_) {
    if (entry.partial || entry.count == 0 || !is_unfinished(entry)) continue;
    if (now - entry.since >= patience) turn_partial(entry, now - entry.since);
  }
}

std::vector<ControlMessage> Leader::take_up() {
  std::vector<ControlMessage> up = std::exchange(up_, {});
  if (!ready_.ids.empty()) up.emplace_back(std::exchange(ready_, {}));
  return up;
}

}  // namespace hvd
