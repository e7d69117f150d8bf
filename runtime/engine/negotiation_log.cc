// SPDX-License-Identifier: Apache-2.0
// What a rank does with the log.
#include "base/log.h"
#include "engine/negotiation.h"

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
                  format_text("rank {} wrote what is no log entry: {}", place_.node_ranks.front(),
                              entry.status().message()));
    }
  }
  if (log_.take_made_room()) ring_leader_ = true;
  return moved;
}

void Negotiation::apply(const ControlMessage& entry) {
  // A loss ends the epoch: what comes behind it starts nothing, and requests stay where
  // take_all_requests() finds them.
  if (lost_) return;
  if (const auto* run = std::get_if<Run>(&entry)) {
    apply_run(*run);
  } else if (const auto* define = std::get_if<Define>(&entry)) {
    apply_define(*define);
  } else if (const auto* failure = std::get_if<Failure>(&entry)) {
    NameEntry* found = find_name(failure->process_set, failure->name);
    if (found != nullptr) found->second.in_full = true;
    if (PendingPtr pending = take_current(failure->process_set, failure->name)) {
      decisions_.emplace_back(
          FailRequest{std::move(pending), Status(failure->code, failure->text)});
    }
  } else if (const auto* stall = std::get_if<Stall>(&entry)) {
    const NameEntry* found = find_name(stall->process_set, stall->name);
    if (found != nullptr && found->second.current != nullptr) {
      log(LogLevel::kWarning, "stall", "{}", stall->text);
    }
  } else if (const auto* added = std::get_if<SetAdded>(&entry)) {
    apply_set_added(*added);
  } else if (const auto* removed = std::get_if<SetRemoved>(&entry)) {
    apply_set_removed(removed->process_set);
  } else if (const auto* left = std::get_if<Left>(&entry)) {
    decisions_.emplace_back(PeerLeft{left->rank});
  } else if (const auto* lost = std::get_if<Lost>(&entry)) {
    lost_ = true;
    decisions_.emplace_back(PeerLost{lost->rank, lost->text});
  } else if (std::holds_alternative<Shutdown>(entry)) {
    decisions_.emplace_back(AllLeft{});
  }
}

void Negotiation::apply_define(const Define& define) {
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
}

void Negotiation::apply_run(const Run& run) {
  RunTogether together;
  together.process_set = run.process_set;
  together.requests.reserve(run.ids.size() + 1);
  for (const std::uint32_t id : run.ids) {
    if (id >= by_id_.size() || by_id_[id].entry == nullptr) continue;
    by_id_[id].entry->second.in_full = false;
    if (PendingPtr pending = take_current(*by_id_[id].set, *by_id_[id].entry)) {
      together.requests.push_back(std::move(pending));
    }
  }
  if (!run.name.empty()) {
    if (PendingPtr pending = take_current(run.process_set, run.name)) {
      together.requests.push_back(std::move(pending));
    }
  }
  if (!together.requests.empty()) decisions_.emplace_back(std::move(together));
}

void Negotiation::apply_set_added(const SetAdded& added) {
  const auto index = static_cast<std::size_t>(added.process_set);
  if (index != sets_.size()) return;  // not from our code: sets are numbered in order
  sets_.push_back(std::make_unique<Set>());
  sets_.back()->is_member = added.ranks.contains(place_.rank);
  decisions_.emplace_back(SetFormed{added.process_set, added.ranks});
}

void Negotiation::apply_set_removed(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  if (index == 0 || index >= sets_.size() || sets_[index] == nullptr) return;
  for (IdName& name : by_id_) {
    if (name.set == sets_[index].get()) name = {};
  }
  sets_[index] = nullptr;
}

PendingPtr Negotiation::take_current(int process_set, const std::string& text) {
  Set* set = find_set(process_set);
  NameEntry* entry = find_name(process_set, text);
  return entry == nullptr ? nullptr : take_current(*set, *entry);
}

PendingPtr Negotiation::take_current(Set& set, NameEntry& entry) {
  Name& name = entry.second;
  PendingPtr pending = std::exchange(name.current, nullptr);
  if (!name.queued.empty()) {
    name.current = std::move(name.queued.front());
    name.queued.pop_front();
    --queued_;
    announce(entry);
    leave_if_all_is_said();
  } else if (!name.id) {
    set.names.erase(std::string(entry.first));
  }
  return pending;
}

}  // namespace hvd
