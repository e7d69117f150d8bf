// SPDX-License-Identifier: Apache-2.0
// Ranks that run out of data before the others.
#include "engine/engine_impl.h"

namespace hvd {

Result<PendingPtr> Engine::Impl::enter_join(int process_set, bool active_average) {
  Lock lock(sets_mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end() || found->second.plane == nullptr || found->second.closing) {
    return error(Code::kInvalidArgument, "rank {}: join: this rank is in no process set {}",
                 wiring_.rank, process_set);
  }
  KnownSet& set = found->second;
  if (set.join != nullptr) {
    if (set.join->active_average == active_average) return set.join;
    return error(Code::kInvalidArgument,
                 "rank {}: this rank has joined process set {} with another kind of average",
                 wiring_.rank, process_set);
  }
  Request request;
  request.name = "join";
  request.process_set = process_set;
  request.operation = Join{};
  set.join = completion_.add(std::move(request));
  set.join->active_average = active_average;
  if (process_set != 0) set.plane->in_flight.fetch_add(1);
  if (process_set == 0) has_joined_world_.store(true);
  submission_.push(set.join);
  return set.join;
}

void Engine::Impl::leave_join(int process_set, const PendingPtr& join) {
  Lock lock(sets_mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end() || found->second.join != join) return;
  completion_.release(join->handle);
  found->second.join = nullptr;
  if (process_set == 0) has_joined_world_.store(false);
}

Result<int> Engine::Impl::join(int process_set, bool active_average, Deadline deadline) {
  if (is_over()) return over_status();
  HVD_TRY_ASSIGN(const PendingPtr pending, enter_join(process_set, active_average));
  flush();
  // Of two threads that wait for one join the later may find its handle gone.
  static_cast<void>(wait(pending->handle, deadline));
  if (!pending->done.load()) {
    return error(Code::kTimeout,
                 "rank {}: not all ranks of process set {} have joined in time; this one stays "
                 "joined: call join again to wait on",
                 wiring_.rank, process_set);
  }
  leave_join(process_set, pending);
  HVD_TRY(pending->status);
  return pending->last_joined;
}

}  // namespace hvd
