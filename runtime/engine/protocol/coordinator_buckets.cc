// SPDX-License-Identifier: Apache-2.0
// Allreduces of GPU memory, whose buckets are frozen once steps repeat.
#include <algorithm>

#include "engine/protocol/coordinator.h"

namespace hvd {

BucketSchedule::Limits Coordinator::bucket_limits() const {
  BucketSchedule::Limits limits;
  limits.bytes = std::min(limits.bytes, options_.fusion_bytes);
  limits.first_bytes = std::min(limits.first_bytes, limits.bytes);
  return limits;
}

/// A place in the program may stand for another call in the next step.
bool Coordinator::is_of_buckets(const Name& name, const Description& description) {
  return description.device != DeviceKind::kCpu && !name.is_place &&
         std::holds_alternative<Allreduce>(description.operation);
}

/// What has an id comes again, and what all members announce themselves comes as a whole.
bool Coordinator::may_freeze(const Name& name) {
  return name.runs_by_id() && name.contributors == 0 && !name.set->any_left &&
         name.set->joined.empty() && is_of_buckets(name, name.description);
}

void Coordinator::follow(Set& set, BucketSchedule::Outcome outcome) {
  if (!outcome.thawed.empty()) {
    log_.emplace_back(Thawed{set.id, std::move(outcome.thawed)});
  }
  for (const std::uint32_t id : outcome.alone) set.complete.push_back(by_id_[id]);
  if (outcome.has_frozen) {
    Frozen frozen{set.id};
    for (const BucketSchedule::Ids& bucket : set.schedule.buckets()) {
      frozen.ids.insert(frozen.ids.end(), bucket.begin(), bucket.end());
      frozen.ends.push_back(static_cast<std::uint32_t>(frozen.ids.size()));
    }
    log_.emplace_back(std::move(frozen));
  }
  if (!outcome.bucket.empty()) {
    hvd::Run run;
    run.ids = std::move(outcome.bucket);
    run.process_set = set.id;
    run.bucket = static_cast<std::uint32_t>(outcome.number);
    set.buckets.push_back(std::move(run));
  }
}

/// Nothing holds them: a later name makes them no larger.
void Coordinator::run_buckets(Set& set, std::vector<ControlMessage>& log) {
  const auto priority = [this](const hvd::Run& run) {
    return by_id_[run.ids.front()]->description.priority;
  };
  std::stable_sort(set.buckets.begin(), set.buckets.end(),
                   [&](const hvd::Run& a, const hvd::Run& b) { return priority(a) > priority(b); });
  for (hvd::Run& run : set.buckets) {
    complete_ -= run.ids.size();
    for (const std::uint32_t id : run.ids) by_id_[id]->is_complete = false;
    log.emplace_back(std::move(run));
  }
  set.buckets.clear();
}

void Coordinator::urge(const Urge& urge) {
  if (Set* set = find_set(urge.process_set)) follow(*set, set->schedule.urge(urge.text));
}

std::uint64_t Coordinator::frozen_steps(int process_set) {
  const Set* set = find_set(process_set);
  return set == nullptr ? 0 : set->schedule.frozen_steps();
}

}  // namespace hvd
