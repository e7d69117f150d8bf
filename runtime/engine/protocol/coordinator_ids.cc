// SPDX-License-Identifier: Apache-2.0
// Ids: which names have one, and which lose theirs.
//
// A rank may have announced by the bit of an id when it reads that the id is evicted. So the id is
// free only when every rank has read it, and its words from before have arrived: up to then the bit
// counts as what it meant when it was set.
#include <algorithm>

#include "engine/protocol/coordinator.h"

namespace hvd {

/// A program may make a new name in each step. Such names must not take the ids of those that come
/// again: when half of the ids are taken, a name gets one at its second use.
bool Coordinator::may_have_id(const Name& name) {
  return taken_ids() < options_.ids / 2 || recent_.came_before(name.set->id, name.name);
}

std::optional<std::uint32_t> Coordinator::next_id() {
  if (taken_ids() + options_.ids / 8 >= options_.ids) evict_idle();
  if (!free_ids_.empty()) {
    const std::uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    return id;
  }
  if (by_id_.size() >= options_.ids) return std::nullopt;
  by_id_.push_back(nullptr);
  return static_cast<std::uint32_t>(by_id_.size() - 1);
}

bool Coordinator::may_evict(const Name& name) const {
  return name.is_idle() && uses_ - name.last_use >= options_.idle_uses &&
         !name.set->schedule.has_bucket_of(*name.id);
}

/// Takes back an eighth of all ids at most, at one time: each rank answers once for all of them.
/// When a rank leaves, who answers is not known any more, and the job ends.
void Coordinator::evict_idle() {
  if (!evicted_ids_.empty() || !left_.empty() || uses_ < evict_at_) return;
  const std::size_t most = std::max(options_.ids / 8, std::uint32_t{1});
  evict_at_ = uses_ + most;  // so that a look in vain is rare
  std::vector<Name*> idle;
  for (Name* name : by_id_) {
    if (name != nullptr && may_evict(*name)) idle.push_back(name);
  }
  std::sort(idle.begin(), idle.end(),
            [](const Name* a, const Name* b) { return a->last_use < b->last_use; });
  idle.resize(std::min(idle.size(), most));
  for (Name* name : idle) {
    evicted_ids_.push_back(*name->id);
    name->set->schedule.forget(*name->id);
    name->other.reset();
    name->id.reset();
    name->is_evicted = true;
  }
  if (!evicted_ids_.empty()) log_.emplace_back(Evict{evicted_ids_});
}

void Coordinator::evicted() {
  for (const std::uint32_t id : evicted_ids_) {
    Name* const name = std::exchange(by_id_[id], nullptr);
    free_ids_.push_back(id);
    if (name == nullptr) continue;  // its process set was removed
    name->is_evicted = false;
    if (!name->id && name->is_idle()) name->set->names.erase(std::string(name->name));
  }
  evicted_ids_.clear();
}

/// Nothing of the process set is in flight; what is evicted is free once every rank has said so.
void Coordinator::forget_set_ids(const Set& set) {
  for (const auto& [text, name] : set.names) {
    if (!name->id) continue;
    by_id_[*name->id] = nullptr;
    free_ids_.push_back(*name->id);
  }
  for (const std::uint32_t id : evicted_ids_) {
    if (by_id_[id] != nullptr && by_id_[id]->set == &set) by_id_[id] = nullptr;
  }
}

std::size_t Coordinator::known_names() const {
  std::size_t names = 0;
  for (const auto& set : sets_) names += set == nullptr ? 0 : set->names.size();
  return names;
}

}  // namespace hvd
