// SPDX-License-Identifier: Apache-2.0
// What a rank does with the log.
#include <algorithm>
#include <new>

#include "collective/identity.h"
#include "engine/protocol/negotiation.h"

namespace hvd {

bool Negotiation::read_log() {
  bool moved = false;
  while (const auto bytes = log_.read()) {
    moved = true;
    auto entry = decode_control_message(*bytes, place_.size);
    if (entry.is_ok()) {
      apply(entry.value());
    } else {
      spread_loss(place_.node_ranks.front(),
                  format_text("rank {} wrote what is not a log entry: {}",
                              place_.node_ranks.front(), entry.status().message()));
    }
  }
  if (log_.take_made_room()) ring_leader_ = true;
  return moved;
}

void Negotiation::apply(const ControlMessage& entry) {
  // A loss ends the epoch: what comes after it starts nothing, and requests stay where
  // take_all_requests() finds them.
  if (lost_) return;
  if (const auto* run = std::get_if<Run>(&entry)) {
    apply_run(*run);
  } else if (const auto* define = std::get_if<Define>(&entry)) {
    apply_define(*define);
  } else if (const auto* evict = std::get_if<Evict>(&entry)) {
    apply_evict(*evict);
  } else if (const auto* failure = std::get_if<Failure>(&entry)) {
    apply_failure(*failure);
  } else if (const auto* added = std::get_if<SetAdded>(&entry)) {
    apply_set_added(*added);
  } else if (const auto* removed = std::get_if<SetRemoved>(&entry)) {
    apply_set_removed(removed->process_set);
  } else if (const auto* frozen = std::get_if<Frozen>(&entry)) {
    apply_frozen(*frozen);
  } else if (const auto* thawed = std::get_if<Thawed>(&entry)) {
    apply_thawed(*thawed);
  } else if (const auto* joined = std::get_if<Joined>(&entry)) {
    apply_joined(*joined);
  } else if (const auto* end = std::get_if<JoinEnd>(&entry)) {
    apply_join_end(*end);
  } else if (const auto* left = std::get_if<Left>(&entry)) {
    if (left->owes) return;
    left_.add(left->rank);
    decisions_.emplace_back(PeerLeft{left->rank});
  } else if (const auto* lost = std::get_if<Lost>(&entry)) {
    lost_ = true;
    decisions_.emplace_back(PeerLost{lost->rank, lost->text});
  } else if (const auto* end = std::get_if<GiveUp>(&entry)) {
    lost_ = true;
    decisions_.emplace_back(GivenUp{end->text});
  } else if (std::holds_alternative<Shutdown>(entry)) {
    decisions_.emplace_back(AllLeft{});
  }
}

void Negotiation::apply_define(const Define& define) {
  ++keys_;
  if (define.id >= Board::kMaxIds) return;
  if (define.id >= by_id_.size()) by_id_.resize(define.id + 1);
  Set* set = find_set(define.description.process_set);
  if (set == nullptr) {
    by_id_[define.id] = {};
    return;
  }
  NameEntry& entry = *set->names.try_emplace(define.name).first;
  by_id_[define.id] = {set, &entry};
  entry.second.id = define.id;
  entry.second.described = define.description;
  set->by_key.erase(std::exchange(entry.second.key, keys_));
  set->by_key[keys_] = &entry;
}

void Negotiation::apply_evict(const Evict& evict) {
  ++evictions_;
  for (const std::uint32_t id : evict.ids) {
    if (id >= by_id_.size()) continue;
    const IdName evicted = std::exchange(by_id_[id], {});
    if (evicted.entry == nullptr) continue;
    evicted.entry->second.id.reset();
    evicted.set->by_key.erase(std::exchange(evicted.entry->second.key, 0));
    if (Direct* direct = evicted.set->direct.get(); direct != nullptr) {
      // The others do not know any more what it stands for.
      if (direct->offered == evicted.entry) direct->rounds.want_back();
    }
    if (evicted.entry->second.current == nullptr) {
      evicted.set->names.erase(std::string(evicted.entry->first));
    }
  }
  // Once a rank has left, nothing is taken back any more: see Coordinator::evict_idle().
  if (!has_left_) say_up(Evicted{1});
}

void Negotiation::apply_run(const Run& run) {
  if (Set* set = find_set(run.process_set)) ++set->position;
  RunTogether together;
  together.process_set = run.process_set;
  together.divisor = run.divisor;
  together.bucket = run.bucket;
  together.requests.reserve(run.ids.size() + 1);
  for (const std::uint32_t id : run.ids) {
    if (id >= by_id_.size() || by_id_[id].entry == nullptr) continue;
    Set& set = *by_id_[id].set;
    NameEntry& entry = *by_id_[id].entry;
    entry.second.in_full = false;
    PendingPtr pending = take_current(set, entry);
    if (pending == nullptr && set.joined) {
      decisions_.emplace_back(PassedOver{run.process_set, entry.first});
      pending = stand_in(entry.first, entry.second.described);
    }
    if (pending != nullptr) together.requests.push_back(std::move(pending));
  }
  if (!run.name.empty()) {
    PendingPtr pending = take_current(run.process_set, run.name);
    const Set* set = find_set(run.process_set);
    if (pending == nullptr && set != nullptr && set->joined && run.description) {
      decisions_.emplace_back(PassedOver{run.process_set, run.name});
      pending = stand_in(run.name, *run.description);
    }
    if (pending != nullptr) together.requests.push_back(std::move(pending));
  }
  if (!together.requests.empty()) decisions_.emplace_back(std::move(together));
}

void Negotiation::apply_failure(const Failure& failure) {
  Set* set = find_set(failure.process_set);
  if (set != nullptr) ++set->position;
  NameEntry* found = find_name(failure.process_set, failure.name);
  if (found != nullptr) found->second.in_full = true;
  if (PendingPtr pending = take_current(failure.process_set, failure.name)) {
    std::string text = failure.text;
    if (pending->call > 0) {
      text += format_text(" (without a name: number {} of the {} calls of rank {})", pending->call,
                          kind_name(pending->request.operation), place_.rank);
    }
    decisions_.emplace_back(FailRequest{std::move(pending), Status(failure.code, std::move(text))});
  } else if (set != nullptr && set->joined) {
    decisions_.emplace_back(PassedOver{failure.process_set, failure.name});
  }
}

void Negotiation::apply_set_added(const SetAdded& added) {
  const auto index = static_cast<std::size_t>(added.process_set);
  if (index != sets_.size()) return;  // not from our code: sets are numbered in order
  sets_.push_back(std::make_unique<Set>());
  sets_.back()->is_member = added.ranks.contains(place_.rank);
  decisions_.emplace_back(SetFormed{added.process_set, added.ranks});
}

void Negotiation::apply_joined(const Joined& joined) {
  Set* set = find_set(joined.process_set);
  if (set != nullptr && joined.rank == place_.rank) set->joined = true;
}

void Negotiation::apply_join_end(const JoinEnd& end) {
  Set* set = find_set(end.process_set);
  if (set == nullptr) return;
  set->joined = false;
  ++set->join_epoch;
  Status status = end.code == Code::kOk ? Status::ok() : Status(end.code, end.text);
  if (set->joining == nullptr) {
    set->missed_joins.push_back(std::move(status));
    return;
  }
  set->joining->last_joined = end.rank;
  decisions_.emplace_back(FailRequest{std::exchange(set->joining, nullptr), std::move(status)});
}

/// The part of this rank in a request that it has joined instead of submitting it.
PendingPtr Negotiation::stand_in(const std::string& text, const Description& description) {
  const auto* allreduce = std::get_if<Allreduce>(&description.operation);
  if (allreduce == nullptr) return nullptr;  // not from our root, which refuses all others
  auto pending = std::make_shared<PendingRequest>();
  pending->description = description;
  pending->cacheable = false;
  Request& request = pending->request;
  request.name = text;
  request.process_set = description.process_set;
  request.operation = description.operation;
  request.device = {description.device, 0};
  request.priority = description.priority;
  pending->is_stand_in = true;
  if (description.device != DeviceKind::kCpu) {
    for (const Description::Tensor& tensor : description.tensors) {
      request.tensors.push_back({nullptr, nullptr, tensor.dtype, tensor.shape, tensor.layout});
    }
    return pending;
  }
  pending->neutral.reset(new (std::nothrow)
                             std::byte[std::max<std::size_t>(description.bytes(), 1)]);
  if (pending->neutral == nullptr) {
    spread_loss(place_.rank,
                format_text("rank {} on host {} has no memory for the {} bytes of '{}', which it "
                            "takes part in because it has joined",
                            place_.rank, place_.hosts[static_cast<std::size_t>(place_.rank)],
                            description.bytes(), text));
    return nullptr;
  }
  std::byte* next = pending->neutral.get();
  for (const Description::Tensor& tensor : description.tensors) {
    std::size_t count = 1;
    for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    fill_identity(allreduce->op, tensor.dtype, next, count);
    request.tensors.push_back({next, next, tensor.dtype, tensor.shape, tensor.layout});
    next += count * size_of(tensor.dtype);
  }
  return pending;
}

void Negotiation::apply_set_removed(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  if (index == 0 || index >= sets_.size() || sets_[index] == nullptr) return;
  if (!sets_[index]->buckets.empty()) --frozen_sets_;
  for (IdName& name : by_id_) {
    if (name.set == sets_[index].get()) name = {};
  }
  close_direct(process_set);
  sets_[index] = nullptr;
}

PendingPtr Negotiation::take_current(int process_set, const std::string& text) {
  Set* set = find_set(process_set);
  NameEntry* entry = find_name(process_set, text);
  return entry == nullptr ? nullptr : take_current(*set, *entry);
}

PendingPtr Negotiation::take_current(Set& set, NameEntry& entry) {
  // Offered, so not announced: the log ends a use of the others, which a rank that left owed.
  if (set.direct != nullptr && set.direct->offered == &entry) return nullptr;
  Name& name = entry.second;
  PendingPtr pending = std::exchange(name.current, nullptr);
  if (!name.queued.empty()) {
    name.current = std::move(name.queued.front());
    name.queued.pop_front();
    announce(set, entry);
  } else if (!name.id) {
    set.names.erase(std::string(entry.first));
  }
  return pending;
}

}  // namespace hvd
