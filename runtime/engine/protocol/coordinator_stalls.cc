// SPDX-License-Identifier: Apache-2.0
// Names that wait for ranks which have not announced them.
#include "engine/protocol/coordinator.h"

namespace hvd {

RankSet Coordinator::missing_of(const Name& name) const {
  return name.set->ranks.without(name.announced).without(name.set->joined.without(owing(name)));
}

/// The ranks that something has missed for `time` or longer.
RankSet Coordinator::missed_for(std::chrono::milliseconds time, Clock::time_point now) const {
  RankSet missing(size_);
  for (const Name* name : waiting_) {
    if (now - name->since >= time) missing.add_all(missing_of(*name));
  }
  return missing;
}

std::optional<Stalls> Coordinator::report_stalls(Clock::time_point now) {
  if (options_.stall_warning.count() == 0) return std::nullopt;
  if (!pace_.is_due(now, missed_for(options_.stall_warning, now))) return std::nullopt;
  return stalls(now);
}

std::optional<Stalls> Coordinator::unbearable_stalls(Clock::time_point now) const {
  if (options_.stall_shutdown.count() == 0) return std::nullopt;
  if (missed_for(options_.stall_shutdown, now).empty()) return std::nullopt;
  return stalls(now);
}

Stalls Coordinator::stalls(Clock::time_point now) const {
  Stalls stalls;
  stalls.parted = left_;
  for (const auto& set : sets_) {
    if (set != nullptr) stalls.parted.add_all(set->joined);
  }
  for (const Name* name : waiting_) {
    stalls.tensors.push_back(
        {.name = name->name,
         .operation = describe(name->offers.front().description.operation),
         .process_set = name->set->id,
         .waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - name->since),
         .ranks = name->announced,
         .missing = missing_of(*name)});
  }
  return stalls;
}

}  // namespace hvd
