// SPDX-License-Identifier: Apache-2.0
// Ranks that have said their last word, because they join or leave. What such a rank submitted
// before counts as its own even where it queues behind a use in flight, and will be announced yet:
// the rank *owes* it. Were it to keep its last word back until then, two ranks could wait for each
// other's for ever.
#include <algorithm>

#include "engine/protocol/coordinator.h"

namespace hvd {
namespace {

/// True where a value can stand for the data of a rank that has joined.
Status check_stand_in(const Description& description) {
  const auto* allreduce = std::get_if<Allreduce>(&description.operation);
  if (allreduce == nullptr) {
    return Status(Code::kInvalidArgument,
                  "only allreduce goes on without a rank; join on every rank first");
  }
  const bool is_ordered = allreduce->op == ReduceOp::kMin || allreduce->op == ReduceOp::kMax;
  const bool scaled_away = (is_ordered && !(allreduce->prescale > 0)) ||
                           (allreduce->op == ReduceOp::kProduct && allreduce->prescale != 1.0);
  if (allreduce->op == ReduceOp::kAdasum || scaled_away) {
    return error(Code::kUnsupported, "nothing can stand for its part of {}; use sum or average",
                 describe(description.operation));
  }
  return Status::ok();
}

std::string_view word_for(bool active_average) { return active_average ? "active" : "all"; }

}  // namespace

/// All that the rank announced before has arrived, so this is exact.
void Coordinator::note_owed(int rank, const std::vector<Owed>& owed) {
  for (const Owed& item : owed) {
    Set* set = find_set(item.process_set);
    if (set == nullptr || item.uses == 0 || !set->ranks.contains(rank)) continue;
    Name& name = find_or_add(*set, item.name);
    const auto found = std::find_if(name.owed.begin(), name.owed.end(),
                                    [&](const auto& entry) { return entry.first == rank; });
    if (found != name.owed.end()) {
      found->second = item.uses;  // it joined before it left
      continue;
    }
    name.owed.emplace_back(rank, item.uses);
    ++set->owed;
    ++owed_;
  }
}

void Coordinator::pay(Name& name, const RankSet& ranks) {
  for (std::size_t i = 0; i < name.owed.size();) {
    auto& [rank, uses] = name.owed[i];
    if (!ranks.contains(rank) || --uses > 0) {
      ++i;
      continue;
    }
    const int payer = rank;
    name.owed.erase(name.owed.begin() + static_cast<std::ptrdiff_t>(i));
    --name.set->owed;
    --owed_;
    if (left_.contains(payer) && !owes(payer)) log_.emplace_back(Left{payer, false});
  }
}

/// The join has failed: who joined is as any other again.
void Coordinator::forgive(Set& set) {
  for (auto& [text, name] : set.names) {
    const auto forgiven =
        std::erase_if(name->owed, [&](const auto& entry) { return !left_.contains(entry.first); });
    set.owed -= forgiven;
    owed_ -= forgiven;
  }
}

RankSet Coordinator::owing(const Name& name) const {
  RankSet ranks(size_);
  for (const auto& [rank, uses] : name.owed) ranks.add(rank);
  return ranks;
}

bool Coordinator::owes(int rank) const {
  if (owed_ == 0) return false;
  for (const auto& set : sets_) {
    if (set == nullptr || set->owed == 0) continue;
    for (const auto& [text, name] : set->names) {
      if (owing(*name).contains(rank)) return true;
    }
  }
  return false;
}

Status Coordinator::check_joinable(const Name& name) {
  const Description& description = name.offers.front().description;
  const Status status = check_stand_in(description);
  if (status.is_ok()) return Status::ok();
  const RankSet joined = name.set->joined.without(name.announced);
  return error(status.code(), "{} '{}': {} {} joined process set {}: {}",
               kind_name(description.operation), name.name, describe_ranks(joined),
               joined.count() == 1 ? "has" : "have", name.set->id, status.message());
}

void Coordinator::join(const Joining& joining) {
  Set* set = find_set(joining.process_set);
  if (set == nullptr || joining.epoch != set->join_epoch || set->joined.contains(joining.rank) ||
      !set->join_failure.is_ok()) {
    return;  // of a join that is over: the rank will hear how it ended
  }
  if (!set->joined.empty() && set->active_average != joining.active_average) {
    RankSet other(size_);
    other.add(joining.rank);
    set->join_failure =
        error(Code::kMismatch,
              "join of process set {}: ranks disagree about the average: {} said {}, {} says {}; "
              "pass the same on every rank",
              set->id, describe_ranks(set->joined), word_for(set->active_average),
              describe_ranks(other), word_for(joining.active_average));
    return;
  }
  set->active_average = joining.active_average;
  set->joined.add(joining.rank);
  set->last_joined = joining.rank;
  any_joined_ = true;
  log_.emplace_back(Joined{joining.rank, set->id});
  follow(*set, set->schedule.thaw(format_text("rank {} joins", joining.rank)));
  note_owed(joining.rank, joining.owed);
  check_join_left(*set);
  const std::vector<Name*> waiting = waiting_;
  for (Name* name : waiting) {
    // A failure forgets a name without id, but never another one than itself.
    if (name->set == set) check_complete(*name);
  }
}

void Coordinator::check_join_left(Set& set) {
  const RankSet missing = left_.common(set.ranks).without(set.joined);
  if (missing.empty() || !set.join_failure.is_ok()) return;
  set.join_failure =
      error(Code::kAborted,
            "join of process set {}: {} left the job (shutdown, or the end of the program) without "
            "joining; join on every rank",
            set.id, describe_ranks(missing));
}

/// What ranks submitted before they joined runs before the join ends.
void Coordinator::end_joins(std::vector<ControlMessage>& log) {
  any_joined_ = false;
  for (const auto& set : sets_) {
    if (set == nullptr || set->joined.empty()) continue;
    const bool failed = !set->join_failure.is_ok();
    const bool over = failed || (set->joined.count() == set->size && set->owed == 0);
    if (!over || !set->complete.empty()) {
      any_joined_ = true;
      continue;
    }
    log.emplace_back(
        JoinEnd{set->id, set->last_joined, set->join_failure.code(), set->join_failure.message()});
    set->join_failure = Status::ok();
    set->joined.clear();
    ++set->join_epoch;
    if (failed) forgive(*set);
  }
}

}  // namespace hvd
