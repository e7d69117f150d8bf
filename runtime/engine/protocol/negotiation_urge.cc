// SPDX-License-Identifier: Apache-2.0
// Frozen buckets, as a rank sees them, and the word that opens them.
#include <algorithm>

#include "base/log.h"
#include "engine/protocol/negotiation.h"

namespace hvd {

void Negotiation::apply_frozen(const Frozen& frozen) {
  if (is_root()) {
    log(LogLevel::kInfo, "buckets",
        "process set {}: steps repeat: {} allreduces of GPU memory run in {} fixed buckets from "
        "here on",
        frozen.process_set, frozen.ids.size(), frozen.ends.size());
  }
  Set* set = find_set(frozen.process_set);
  if (set == nullptr) return;
  if (set->buckets.empty()) ++frozen_sets_;
  set->buckets.clear();
  set->has_urged = false;
  std::size_t begin = 0;
  for (const std::uint32_t end : frozen.ends) {
    const auto first = frozen.ids.begin() + static_cast<std::ptrdiff_t>(begin);
    set->buckets.emplace_back(first, frozen.ids.begin() + end);
    begin = end;
  }
  decisions_.emplace_back(BucketsChanged{frozen.process_set, true});
}

void Negotiation::apply_thawed(const Thawed& thawed) {
  if (is_root()) {
    log(LogLevel::kInfo, "buckets",
        "process set {}: {}: allreduces of GPU memory run as they become complete, until steps "
        "repeat again",
        thawed.process_set, thawed.text);
  }
  Set* set = find_set(thawed.process_set);
  if (set == nullptr || set->buckets.empty()) return;
  --frozen_sets_;
  set->buckets.clear();
  decisions_.emplace_back(BucketsChanged{thawed.process_set, false});
}

Negotiation::Overdue Negotiation::find_overdue(Clock::time_point now) const {
  Overdue overdue;
  const auto look = [&](const PendingPtr& pending) {
    // relaxed: whoever writes it makes the engine look afterwards.
    const Clock::duration at{pending->overdue_at.load(std::memory_order_relaxed)};
    const Clock::time_point due{at};
    if (due > now) {
      overdue.next = std::min(overdue.next, due);
      return false;
    }
    overdue.any = true;
    return now - due >= kAnyway;
  };
  for (const auto& set : sets_) {
    if (set == nullptr) continue;
    if (set->joining != nullptr) look(set->joining);
    for (const auto& [text, name] : set->names) {
      if (name.current == nullptr) continue;
      bool for_long = look(name.current);
      for (const PendingPtr& queued : name.queued) for_long = look(queued) || for_long;
      if (for_long && name.id) overdue.for_long.push_back(*name.id);
    }
  }
  return overdue;
}

Clock::time_point Negotiation::urge(Clock::time_point now) {
  if (frozen_sets_ == 0) return Clock::time_point::max();
  const Overdue overdue = find_overdue(now);
  for (std::size_t id = 0; overdue.any && id < sets_.size(); ++id) {
    if (sets_[id] == nullptr || sets_[id]->has_urged) continue;
    urge(*sets_[id], static_cast<int>(id), overdue);
  }
  return overdue.next;
}

void Negotiation::urge(Set& set, int process_set, const Overdue& overdue) {
  const auto is_submitted = [this](std::uint32_t id) {
    return id < by_id_.size() && by_id_[id].entry != nullptr &&
           by_id_[id].entry->second.current != nullptr;
  };
  std::string why;
  for (const auto& bucket : set.buckets) {
    if (std::none_of(bucket.begin(), bucket.end(), is_submitted)) continue;
    const auto missing = std::find_if_not(bucket.begin(), bucket.end(), is_submitted);
    if (missing != bucket.end()) {
      const bool is_known = *missing < by_id_.size() && by_id_[*missing].entry != nullptr;
      why = format_text("has not submitted '{}'", is_known ? by_id_[*missing].entry->first : "");
      break;
    }
    const auto late = std::find_first_of(bucket.begin(), bucket.end(), overdue.for_long.begin(),
                                         overdue.for_long.end());
    if (late != bucket.end()) {
      why = format_text("has waited long for '{}'", by_id_[*late].entry->first);
    }
  }
  if (why.empty()) return;
  set.has_urged = true;
  say_up(Urge{process_set, format_text("rank {} waits and {}", place_.rank, why)});
  ring();
}

}  // namespace hvd
