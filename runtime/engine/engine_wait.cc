// SPDX-License-Identifier: Apache-2.0
// Callers that wait: they drive, then sleep, and see to it that nobody keeps back what they wait
// for.
#include <sched.h>

#include "engine/engine_impl.h"

namespace hvd {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Engine::Impl::drive(const Pending& pending, Until until, Deadline deadline) {
  wiring_.node.doorbell->set_asleep(false);
  int idle = 0;
  Clock::time_point spin_end;
  Clock::time_point give_up;
  for (unsigned polls = 0; !has_come(pending, until); ++polls) {
    if (polls % 256 == 255 && deadline.has_passed()) break;
    if (step()) {
      idle = 0;
      continue;
    }
    ++idle;
    if (idle == 1) spin_end = Clock::now() + kSpinTime;
    if (idle < spin_polls_) {
      relax();
      if (idle % 64 == 0 && Clock::now() >= spin_end) idle = spin_polls_ - 1;
    } else {
      // See kCrowdedTime.
      const auto now = Clock::now();
      if (idle == spin_polls_) give_up = now + kYieldTime;
      if (now >= give_up || now < crowded_until_) break;
      yield_core();
    }
  }
  // Leave nothing behind that only we would do: what is ready now goes to the thread.
  if (!park()) wiring_.node.doorbell->ring_self();
}

void Engine::Impl::await(const Pending& pending, Until until, Deadline deadline) {
  const auto begin = Clock::now();
  bool drove = false;
  bool leaves_work = false;
  mark_waiting(pending, begin + kUrgeTime);
  waiting_callers_.fetch_add(1);
  for (int tries = 0; !drove && !has_come(pending, until) && tries < spin_polls_ + 64; ++tries) {
    if (!progress_.try_lock()) {
      if (tries % 16 == 15) sched_yield();
      relax();
      continue;
    }
    drive(pending, until, deadline);
    leaves_work = may_be_needed();
    progress_.unlock();
    drove = true;
  }
  // seq_cst, as the thread's store of stepped_back_ and its load of the callers before it sleeps:
  // either it sees that nobody waits any more, or we see that it stepped back for us, and ring.
  // Where nothing else wakes it, it may sleep its whole tick because we were driving.
  waiting_callers_.fetch_sub(1);
  if (!drove || (leaves_work && (stepped_back_.load() || polling_.load())))
    wiring_.node.doorbell->ring_self();
  completion_.run_callbacks();
  if (!has_come(pending, until)) {
    flush();
    completion_.wait_until([&] { return has_come(pending, until); }, deadline);
  }
  const Clock::duration waited = Clock::now() - begin;
  waited_ns_.fetch_add(waited.count());
  pending.trace.waited(pending.request.name, waited);
}

Status Engine::Impl::not_in_time(const Pending& pending) const {
  return error(Code::kTimeout,
               "rank {}: '{}' ({}) has not completed in time; it is still under way", wiring_.rank,
               pending.request.name, hvd::describe(pending.request.operation));
}

Status Engine::Impl::wait(Handle handle, Deadline deadline) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  if (pending->done.load()) {
    if (!submission_.is_empty()) flush();
    return pending->status;
  }
  await(*pending, Until::kDone, deadline);
  return pending->done.load() ? pending->status : not_in_time(*pending);
}

/// A bucket of GPU memory may keep it back: see Negotiation::urge().
void Engine::Impl::mark_waiting(const Pending& pending, Clock::time_point until) {
  // relaxed: set before this rank's first tensor of GPU memory, without which there are no buckets.
  if (!has_gpu_tensors_.load(std::memory_order_relaxed)) return;
  const Clock::rep at = until.time_since_epoch().count();
  // relaxed: read under the progress lock after urge_at(), or at the next tick.
  if (at < pending.overdue_at.load(std::memory_order_relaxed)) {
    pending.overdue_at.store(at, std::memory_order_relaxed);
  }
  urge_at(until);
}

void Engine::Impl::urge_at(Clock::time_point time) {
  const Clock::rep at = time.time_since_epoch().count();
  // seq_cst, and before the look whether the thread sleeps: it sleeps no longer than this.
  for (Clock::rep known = urge_at_.load(); at < known;) {
    if (urge_at_.compare_exchange_weak(known, at)) break;
  }
}

Deadline Engine::Impl::next_urge() const {
  return Deadline::at(Clock::time_point(Clock::duration(urge_at_.load())));
}

void Engine::Impl::urge_if_due(Clock::time_point now, bool in_any_case) {
  if (!in_any_case && now.time_since_epoch().count() < urge_at_.load()) return;
  urge_at_.exchange(kNoUrge);  // who waits from now on sets it again; the others we see below
  if (is_over()) return;
  take_submissions();  // what a caller waits for is looked at where it has come to
  urge_at(negotiation_->urge(now));
}

}  // namespace hvd
