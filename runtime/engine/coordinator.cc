// SPDX-License-Identifier: Apache-2.0
#include "engine/coordinator.h"

#include <algorithm>

#include "engine/board.h"
#include "engine/fusion.h"

namespace hvd {

Coordinator::Coordinator(std::vector<std::string> hosts, const Options& options)
    : hosts_(std::move(hosts)),
      options_(options),
      size_(static_cast<int>(hosts_.size())),
      left_(size_) {}

Coordinator::Name& Coordinator::find_or_add(const std::string& name, bool cacheable) {
  auto& slot = names_[name];
  if (slot == nullptr) {
    slot = std::make_unique<Name>();
    slot->name = name;
    slot->cacheable = cacheable;
    slot->announced = RankSet(size_);
  }
  return *slot;
}

void Coordinator::announce(const Announce& announce, Clock::time_point now) {
  Name& name = find_or_add(announce.name, announce.cacheable);
  add_offer(name, announce.description, announce.ranks, now);
}

void Coordinator::ready(std::uint32_t id, const RankSet& ranks, Clock::time_point now) {
  if (id >= by_id_.size()) return;  // not an id of ours: the sender's leader checked it already
  Name& name = *by_id_[id];
  if (name.offers.empty() && ranks.count() == size_) {
    complete_.push_back(&name);  // the usual case: no set to build, nothing to compare
    return;
  }
  add_offer(name, name.description, ranks, now);
}

void Coordinator::add_offer(Name& name, const Description& description, const RankSet& ranks,
                            Clock::time_point now) {
  if (name.offers.empty()) {
    waiting_.push_back(&name);
    name.since = now;
    name.reported = now;
  }
  name.announced.add_all(ranks);
  const auto same = std::find_if(name.offers.begin(), name.offers.end(), [&](const Offer& offer) {
    return offer.description == description;
  });
  if (same != name.offers.end()) {
    same->ranks.add_all(ranks);
  } else {
    name.offers.push_back({description, ranks});
  }
  check_complete(name);
}

void Coordinator::check_complete(Name& name) {
  if (name.announced.count() != size_) {
    check_left(name);
    return;
  }
  if (name.offers.size() > 1) {
    fail(name, Code::kMismatch, disagreement(name.name, name.offers));
    return;
  }
  define(name);
  std::erase(waiting_, &name);
  name.offers.clear();
  name.announced.clear();
  complete_.push_back(&name);
}

void Coordinator::check_left(Name& name) {
  const RankSet missing = left_.without(name.announced);
  if (missing.empty()) return;
  std::string hosts;
  for (const int rank : missing.ranks()) {
    hosts += format_text("{}{}", hosts.empty() ? "" : ", ", hosts_[static_cast<std::size_t>(rank)]);
  }
  fail(name, Code::kAborted,
       format_text("tensor '{}': {} on host {} left the job (shutdown, or the end of the program) "
                   "without submitting it; submit the same tensors on every rank",
                   name.name, describe_ranks(missing), hosts));
}

void Coordinator::define(Name& name) {
  const Description& description = name.offers.front().description;
  const bool known = name.id && name.description == description;
  name.description = description;
  if (known || !name.cacheable) return;
  if (!name.id) {
    if (by_id_.size() >= Board::kMaxIds) return;  // announced in full each time, then
    name.id = static_cast<std::uint32_t>(by_id_.size());
    by_id_.push_back(&name);
  }
  log_.emplace_back(Define{*name.id, name.name});
}

void Coordinator::fail(Name& name, Code code, std::string text) {
  log_.emplace_back(Failure{name.name, code, std::move(text)});
  std::erase(waiting_, &name);
  name.offers.clear();
  name.announced.clear();
  finish(name);
}

void Coordinator::finish(Name& name) {
  if (!name.id) names_.erase(std::string(name.name));
}

void Coordinator::leave(int rank) {
  if (left_.contains(rank)) return;
  left_.add(rank);
  log_.emplace_back(Left{rank});
  const std::vector<Name*> waiting = waiting_;
  for (Name* name : waiting) check_left(*name);
}

std::vector<ControlMessage> Coordinator::decide(bool may_run) {
  std::vector<ControlMessage> log = std::exchange(log_, {});
  if (may_run && !complete_.empty()) run_complete(log);
  // The last entry: what all have announced runs before it.
  if (complete_.empty() && left_.count() == size_ && !std::exchange(shut_down_, true)) {
    log.emplace_back(Shutdown{});
  }
  return log;
}

void Coordinator::run_complete(std::vector<ControlMessage>& log) {
  std::vector<const Description*> descriptions;
  descriptions.reserve(complete_.size());
  for (const Name* name : complete_) descriptions.push_back(&name->description);
  for (const auto& group : fuse(descriptions, options_.fusion_bytes)) {
    Run run;
    for (const std::size_t index : group) {
      const Name& name = *complete_[index];
      if (name.id) {
        run.ids.push_back(*name.id);
      } else {
        log.emplace_back(Run{{}, name.name});
      }
    }
    if (!run.ids.empty()) log.emplace_back(std::move(run));
  }
  for (Name* name : std::exchange(complete_, {})) finish(*name);
}

std::vector<ControlMessage> Coordinator::report_stalls(Clock::time_point now) {
  std::vector<ControlMessage> log;
  if (options_.stall_warning.count() == 0) return log;
  for (Name* name : waiting_) {
    if (now - name->reported < options_.stall_warning) continue;
    name->reported = now;
    log.emplace_back(Stall{name->name, stall_text(*name, now)});
  }
  return log;
}

std::string Coordinator::stall_text(const Name& name, Clock::time_point now) const {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - name.since);
  std::string text = format_text("tensor '{}' ({}) has waited {:.1f} s; not submitted by",
                                 name.name, describe(name.offers.front().description.operation),
                                 static_cast<double>(waited.count()) / 1000.0);
  const RankSet missing = RankSet::all(size_).without(name.announced);
  std::string separator = " ";
  for (const int rank : missing.ranks()) {
    text +=
        format_text("{}rank {} (host {}", separator, rank, hosts_[static_cast<std::size_t>(rank)]);
    std::string others;
    for (const Name* other : waiting_) {
      if (other == &name || !other->announced.contains(rank)) continue;
      others += format_text("{}'{}'", others.empty() ? "" : ", ", other->name);
    }
    text += others.empty() ? ", waits for nothing known)" : format_text(", waits for {})", others);
    separator = ", ";
  }
  return text;
}

}  // namespace hvd
