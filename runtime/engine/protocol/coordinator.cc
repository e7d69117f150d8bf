// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/coordinator.h"

#include <algorithm>

#include "engine/plane/fusion.h"

namespace hvd {
namespace {

/// Bytes that may be in the log ahead of something urgent, where the fusion threshold is lower.
constexpr std::size_t kAheadBytes = std::size_t{1} << 20;

}  // namespace

Coordinator::Coordinator(std::vector<std::string> hosts, const Options& options)
    : hosts_(std::move(hosts)),
      options_(options),
      size_(static_cast<int>(hosts_.size())),
      left_(size_),
      pace_(options.stall_warning) {
  sets_.push_back(std::make_unique<Set>());
  sets_.front()->ranks = RankSet::all(size_);
  sets_.front()->size = size_;
  sets_.front()->joined = RankSet(size_);
  sets_.front()->schedule = BucketSchedule(bucket_limits());
}

void Coordinator::add_set(const RankSet& ranks) {
  auto set = std::make_unique<Set>();
  set->id = static_cast<int>(sets_.size());
  set->ranks = ranks;
  set->size = ranks.count();
  set->joined = RankSet(size_);
  set->schedule = BucketSchedule(bucket_limits());
  log_.emplace_back(SetAdded{set->id, ranks});
  sets_.push_back(std::move(set));
}

void Coordinator::remove_set(int process_set) {
  const Set* set = find_set(process_set);
  if (set == nullptr || process_set == 0) return;
  std::erase_if(waiting_, [&](const Name* name) { return name->set == set; });
  complete_ -= set->complete.size() + set->schedule.waiting();
  for (const hvd::Run& run : set->buckets) complete_ -= run.ids.size();
  forget_set_ids(*set);
  sets_[static_cast<std::size_t>(process_set)] = nullptr;
  log_.emplace_back(SetRemoved{process_set});
}

Coordinator::Set* Coordinator::find_set(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  return index < sets_.size() ? sets_[index].get() : nullptr;
}

void Coordinator::hold(int process_set, bool held) {
  if (Set* set = find_set(process_set)) set->held = held;
}

Coordinator::Name& Coordinator::find_or_add(Set& set, const std::string& name) {
  auto& slot = set.names[name];
  if (slot == nullptr) {
    slot = std::make_unique<Name>();
    slot->name = name;
    slot->set = &set;
    slot->announced = RankSet(size_);
  }
  return *slot;
}

void Coordinator::announce(const Announce& announce, Clock::time_point now) {
  Set* set = find_set(announce.description.process_set);
  if (set == nullptr) return;  // not from our code: a set is used only after the log named it
  Name& name = find_or_add(*set, announce.name);
  name.cacheable = announce.cacheable;
  name.is_place = announce.is_place;
  add_offer(name, announce.description, announce.ranks, now);
}

void Coordinator::ready(std::uint32_t id, Clock::time_point now) {
  if (id >= by_id_.size() || by_id_[id] == nullptr) return;  // as above
  Name& name = *by_id_[id];
  if (name.offers.empty()) {
    name.contributors = 0;
    name.stand_ins = RankSet();
    name.other.reset();
    if (!name.owed.empty()) pay(name, name.set->ranks);
    complete(name);  // the usual case: nothing to compare
    return;
  }
  add_offer(name, name.description, name.set->ranks, now);
}

void Coordinator::ready(std::uint32_t id, const RankSet& ranks, Clock::time_point now) {
  if (id >= by_id_.size() || by_id_[id] == nullptr) return;
  add_offer(*by_id_[id], by_id_[id]->description, ranks, now);
}

void Coordinator::complete(Name& name) {
  ++complete_;
  name.is_complete = true;
  name.last_use = ++uses_;
  if (may_freeze(name)) {
    follow(*name.set, name.set->schedule.complete(*name.id, name.name, name.description));
  } else {
    name.set->complete.push_back(&name);
  }
}

void Coordinator::add_offer(Name& name, const Description& description, const RankSet& ranks,
                            Clock::time_point now) {
  if (name.offers.empty()) {
    waiting_.push_back(&name);
    name.since = now;
  }
  name.since = std::min(name.since, now);
  name.announced.add_all(ranks);
  if (!name.owed.empty()) pay(name, ranks);
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
  name.contributors = 0;
  if (name.announced.count() != name.set->size) {
    const RankSet stand_ins = name.set->joined.without(owing(name));
    if (!name.set->ranks.without(name.announced).without(stand_ins).empty()) {
      check_left(name);
      return;
    }
    name.contributors = name.announced.count();
  }
  name.stand_ins = RankSet();
  if (name.offers.size() > 1) {
    show_world_roots(name);
    fail(name, Code::kMismatch, disagreement(name.name, name.offers));
    return;
  }
  if (name.contributors > 0) {
    if (const Status status = check_joinable(name); !status.is_ok()) {
      fail(name, status.code(), status.message());
      return;
    }
    if (name.offers.front().description.device != DeviceKind::kCpu) {
      name.stand_ins = name.set->ranks.without(name.announced);
    }
  }
  define(name);
  std::erase(waiting_, &name);
  name.offers.clear();
  name.announced.clear();
  complete(name);
}

/// People count the root of a process set among the ranks of the job.
void Coordinator::show_world_roots(Name& name) {
  if (name.set->id == 0) return;
  const std::vector<int> ranks = name.set->ranks.ranks();
  for (Offer& offer : name.offers) {
    const auto root = root_of(offer.description.operation);
    if (!root || *root < 0 || *root >= name.set->size) continue;
    set_root(offer.description.operation, ranks[static_cast<std::size_t>(*root)]);
  }
}

void Coordinator::check_left(Name& name) {
  const RankSet missing = left_.common(name.set->ranks)
                              .without(name.announced)
                              .without(name.set->joined)
                              .without(owing(name));
  if (missing.empty()) return;
  std::string hosts;
  for (const int rank : missing.ranks()) {
    hosts += format_text("{}{}", hosts.empty() ? "" : ", ", hosts_[static_cast<std::size_t>(rank)]);
  }
  fail(
      name, Code::kAborted,
      format_text(
          "tensor '{}': {} on host {} left the job (shutdown, or the end of the program) "
          "without submitting it; submit the same tensors on every rank, or call join() where data "
          "end earlier",
          name.name, describe_ranks(missing), hosts));
}

/// True where this use runs by the name alone and the id keeps what it stands for: a description
/// that comes once between others, as of a last and smaller batch, costs no more than a new name.
/// The second in a row is what the id stands for from then on.
bool Coordinator::may_run_by_name(const Name& name, const Description& description) {
  return name.other != description && !is_of_buckets(name, name.description) &&
         !is_of_buckets(name, description);
}

void Coordinator::define(Name& name) {
  const Description& description = name.offers.front().description;
  if (name.id && name.description == description) return name.other.reset();
  if (name.id && may_run_by_name(name, description)) {
    name.other = description;
    return;
  }
  name.other.reset();
  name.description = description;
  if (!name.cacheable) return;
  if (!name.id && may_have_id(name)) name.id = next_id();
  if (!name.id) return;  // announced in full each time, then
  by_id_[*name.id] = &name;
  log_.emplace_back(Define{*name.id, name.name, name.description});
}

void Coordinator::fail(Name& name, Code code, std::string text) {
  if (name.id && name.set->schedule.has_bucket_of(*name.id)) {
    follow(*name.set, name.set->schedule.thaw(format_text("'{}' has failed", name.name)));
  }
  log_.emplace_back(Failure{name.name, code, std::move(text), name.set->id});
  std::erase(waiting_, &name);
  name.offers.clear();
  name.announced.clear();
  finish(name);
}

void Coordinator::finish(Name& name) {
  name.is_complete = false;
  if (!name.id && !name.is_evicted && name.is_idle()) {
    name.set->names.erase(std::string(name.name));
  }
}

void Coordinator::leave(const Leave& leave) {
  if (left_.contains(leave.rank)) return;
  left_.add(leave.rank);
  log_.emplace_back(Left{leave.rank, !leave.owed.empty()});
  note_owed(leave.rank, leave.owed);
  for (const auto& set : sets_) {
    if (set == nullptr || !set->ranks.contains(leave.rank)) continue;
    set->any_left = true;
    follow(*set, set->schedule.thaw(format_text("rank {} leaves", leave.rank)));
  }
  const std::vector<Name*> waiting = waiting_;
  for (Name* name : waiting) check_left(*name);
  for (const auto& set : sets_) {
    if (set != nullptr && !set->joined.empty()) check_join_left(*set);
  }
}

std::vector<ControlMessage> Coordinator::decide() {
  std::vector<ControlMessage> log = std::exchange(log_, {});
  if (complete_ > 0) {
    for (const auto& set : sets_) {
      if (set != nullptr && !set->buckets.empty()) run_buckets(*set, log);
      if (set != nullptr && !set->held && !set->complete.empty()) run_complete(*set, log);
    }
  }
  if (any_joined_) end_joins(log);
  // The last entry: what all have announced runs before it.
  if (complete_ == 0 && owed_ == 0 && left_.count() == size_ && !std::exchange(shut_down_, true)) {
    log.emplace_back(Shutdown{});
  }
  return log;
}

void Coordinator::run_complete(Set& set, std::vector<ControlMessage>& log) {
  std::vector<const Description*> descriptions;
  descriptions.reserve(set.complete.size());
  for (const Name* name : set.complete) descriptions.push_back(&name->of_use());
  // Of the world set only so much at once: what becomes complete meanwhile may be more urgent. The
  // root takes part in that set, so it is here again when there is room.
  const std::size_t most = std::max(options_.fusion_bytes, kAheadBytes);
  std::size_t bytes = 0;
  std::vector<std::size_t> left;
  for (const auto& group : fuse(descriptions, options_.fusion_bytes)) {
    if (set.id == 0 && bytes >= most) {
      left.insert(left.end(), group.begin(), group.end());
      continue;
    }
    for (const std::size_t index : group) bytes += descriptions[index]->bytes();
    run_group(set, group, log);
  }
  complete_ -= set.complete.size() - left.size();
  const std::vector<Name*> names = std::exchange(set.complete, {});
  std::sort(left.begin(), left.end());
  for (std::size_t i = 0, kept = 0; i < names.size(); ++i) {
    if (kept < left.size() && left[kept] == i) {
      set.complete.push_back(names[i]);
      ++kept;
    } else {
      finish(*names[i]);
    }
  }
}

void Coordinator::run_group(const Set& set, const std::vector<std::size_t>& group,
                            std::vector<ControlMessage>& log) {
  Run run;
  run.process_set = set.id;
  RankSet stand_ins;
  const auto flush = [&] {
    if (!run.ids.empty()) log.emplace_back(std::exchange(run, Run{.process_set = set.id}));
  };
  for (const std::size_t index : group) {
    const Name& name = *set.complete[index];
    // Together runs what has one divisor. On GPU memory, where nothing stands for the tensors of a
    // rank that has joined, it takes part in all of a batch or in nothing.
    const int divisor = set.active_average ? name.contributors : 0;
    if (divisor != run.divisor || name.stand_ins != stand_ins) flush();
    run.divisor = divisor;
    stand_ins = name.stand_ins;
    if (name.runs_by_id()) {
      run.ids.push_back(*name.id);
      continue;
    }
    Run alone{{}, name.name, set.id, divisor, 0};
    if (name.contributors > 0) alone.description = name.of_use();
    log.emplace_back(std::move(alone));
  }
  flush();
}

}  // namespace hvd
