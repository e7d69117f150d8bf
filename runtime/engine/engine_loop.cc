// SPDX-License-Identifier: Apache-2.0
// What drives the stages: one step, the engine's thread, and a caller that waits.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "base/log.h"
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

SetPlane* Engine::Impl::find_plane(int process_set) {
  for (const auto& plane : planes_) {
    if (plane->communicator.process_set == process_set) return plane.get();
  }
  return nullptr;
}

std::size_t Engine::Impl::batches_in_flight() const {
  std::size_t count = 0;
  for (const auto& plane : planes_) count += plane->reduction->in_flight();
  return count;
}

bool Engine::Impl::need_polling() const {
  return std::any_of(planes_.begin(), planes_.end(),
                     [](const auto& plane) { return plane->reduction->needs_polling(); });
}

bool Engine::Impl::advance_planes() {
  bool moved = false;
  for (const auto& plane : planes_) {
    moved = plane->reduction->advance() || moved;
    complete_finished(*plane);
  }
  return moved;
}

bool Engine::Impl::step() {
  if (is_over()) {
    take_submissions();
    negotiation_->flush();
    return false;
  }
  take_submissions();
  for (const auto& plane : planes_) {
    negotiation_->hold(plane->communicator.process_set,
                       plane->reduction->in_flight() >= kBusyBatches);
  }
  bool moved = negotiation_->step();
  for (Decision& decision : negotiation_->take_decisions()) {
    apply(decision);
    if (is_over()) return true;
  }
  moved = advance_planes() || moved;
  if (++steps_ % 256 == 0) tick_if_due();
  return moved;
}

void Engine::Impl::take_submissions() {
  if (!submission_.drain(taken_)) return;
  for (PendingPtr& pending : taken_) {
    if (is_over()) {
      completion_.finish(pending, over_status());
      continue;
    }
    ++in_progress_;
    negotiation_->submit(std::move(pending));
  }
  taken_.clear();
}

void Engine::Impl::apply(Decision& decision) {
  if (auto* run = std::get_if<RunTogether>(&decision)) {
    run_together(*run);
  } else if (auto* fail = std::get_if<FailRequest>(&decision)) {
    finish(fail->request, fail->status);
  } else if (const auto* left = std::get_if<PeerLeft>(&decision)) {
    left_.add(left->rank);
  } else if (const auto* lost = std::get_if<PeerLost>(&decision)) {
    if (leaving_.load() && in_progress_ == 0) {
      all_left_.store(true);  // everyone is on the way out; nothing of ours is missing
      completion_.wake_all();
      return;
    }
    lost_.add(lost->rank);
    if (options_.on_loss && !is_over()) options_.on_loss(lost->rank);
    end_epoch(left_.contains(lost->rank) ? gone_after_leaving(lost->rank)
                                         : Status(Code::kPeerLost, lost->text));
  } else if (const auto* formed = std::get_if<SetFormed>(&decision)) {
    apply_formed(*formed);
  } else if (std::holds_alternative<AllLeft>(decision)) {
    left_together_.store(true);
    all_left_.store(true);
    end_epoch(error(Code::kAborted, "rank {}: every rank has shut down", wiring_.rank));
  }
}

void Engine::Impl::run_together(RunTogether& run) {
  statistics_.requests += run.requests.size();
  for (const PendingPtr& pending : run.requests) {
    // A barrier is done once every rank has announced it.
    if (pending->request.tensors.empty()) finish(pending, Status::ok());
  }
  SetPlane* plane = find_plane(run.process_set);
  if (plane == nullptr) return;  // nothing of a set runs once it is closed
  for (FusedBatch& fused : make_batches(run.requests)) {
    fused.batch.sequence = ++plane->sequence;
    ++statistics_.batches;
    statistics_.bytes += fused.batch.total_count() * size_of(fused.batch.dtype);
    plane->reduction->start(std::move(fused));
  }
}

void Engine::Impl::complete_finished(SetPlane& plane) {
  for (Reducer::Finished& done : plane.reduction->take_finished()) {
    if (done.status.code() == Code::kPeerLost && done.started) {
      suspect(
          wiring_.rank,
          format_text("rank {} on host {} failed in a collective: {}", wiring_.rank,
                      peers_[static_cast<std::size_t>(wiring_.rank)].host, done.status.message()));
      for (PendingPtr& owner : done.owners) broken_.push_back(std::move(owner));
      continue;
    }
    for (const PendingPtr& owner : done.owners) {
      if (!done.status.is_ok() && owner->failure.is_ok()) owner->failure = done.status;
      if (--owner->batches_left == 0) finish(owner, owner->failure);
    }
    if (!done.status.is_ok() && done.started) {
      // Half a collective cannot be taken back: the others wait for bytes that will not come.
      negotiation_->spread_loss(
          wiring_.rank,
          format_text("rank {} on host {} failed in a collective: {}", wiring_.rank,
                      peers_[static_cast<std::size_t>(wiring_.rank)].host, done.status.message()));
    }
  }
}

void Engine::Impl::finish(const PendingPtr& pending, const Status& status) {
  --in_progress_;
  if (pending->request.process_set != 0) {
    // Before the caller is told: it may remove the set at once.
    if (SetPlane* plane = find_plane(pending->request.process_set)) plane->in_flight.fetch_sub(1);
  }
  completion_.finish(pending, status);
}

void Engine::Impl::end_epoch(const Status& status) {
  if (is_over()) return;
  {
    Lock lock(over_mutex_);
    over_status_ = status;
  }
  over_.store(true);
  for (const PendingPtr& pending : std::exchange(broken_, {})) completion_.finish(pending, status);
  const Deadline settled = Deadline::after(kSettleTime);
  for (const auto& plane : planes_) {
    const auto is_gone = [&](int rank) HVD_REQUIRES(progress_) {
      return has_ended(plane->communicator.world_ranks[static_cast<std::size_t>(rank)]);
    };
    for (const PendingPtr& owner : plane->reduction->abandon(is_gone, settled)) {
      completion_.finish(owner, status);
    }
  }
  for (const PendingPtr& pending : negotiation_->take_all_requests()) {
    completion_.finish(pending, status);
  }
  in_progress_ = 0;
  take_submissions();
  if (wiring_.sets != nullptr) wiring_.sets->interrupt();
  completion_.wake_all();
}

bool Engine::Impl::has_ended(int rank) const {
  if (lost_.contains(rank)) return true;
  const auto& local = world_.nodes[static_cast<std::size_t>(world_.node)];
  const auto found = std::find(local.begin(), local.end(), rank);
  if (found == local.end()) return true;  // on another node: it cannot reach our memory
  const auto index = static_cast<std::size_t>(found - local.begin());
  if (index >= wiring_.node.pid_fds.size() || !wiring_.node.pid_fds[index].is_open()) return false;
  pollfd process{wiring_.node.pid_fds[index].get(), POLLIN, 0};
  return ::poll(&process, 1, 0) > 0;
}

void Engine::Impl::tick_if_due() {
  const auto now = Clock::now();
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  if (is_over()) return;
  negotiation_->tick(now);
  if (!suspicion_ || now < suspicion_->due) return;
  const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
  if (left_.contains(suspicion.rank) && broken_.empty()) return;
  negotiation_->spread_loss(suspicion.rank, suspicion.text);
}

std::string Engine::Impl::lost_text(int rank, const std::string& cause) const {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  return format_text("rank {} on host {} (process {}) is lost: {}", rank, peer.host, peer.pid,
                     cause);
}

void Engine::Impl::suspect(int rank, std::string text) {
  // The end of a connection names the peer; a failure of ours does not.
  if (suspicion_ && suspicion_->rank != wiring_.rank) return;
  const auto due = suspicion_ ? suspicion_->due : Clock::now() + kPatience;
  suspicion_ = Suspicion{rank, std::move(text), due};
}

void Engine::Impl::peer_gone(int rank, const std::string& cause, bool certain) {
  while (step()) {
  }  // what it said before it went comes first
  if (is_over() || all_left_.load()) return;
  if (left_.contains(rank)) {
    // It said farewell, so most of us can do without it: not those for whom it spoke, nor what is
    // half done with it.
    const auto node = static_cast<std::size_t>(world_.node);
    const bool spoke_for_us = rank == 0 || rank == world_.nodes[node].front();
    if (spoke_for_us || batches_in_flight() > 0) end_epoch(gone_after_leaving(rank));
    return;
  }
  if (!certain) return suspect(rank, lost_text(rank, cause));
  negotiation_->spread_loss(rank, lost_text(rank, cause));
  step();
}

Status Engine::Impl::gone_after_leaving(int rank) const {
  return error(
      Code::kAborted,
      "rank {}: rank {} on host {} has left the job (shutdown) and ended; the others cannot "
      "go on without it: call shutdown on every rank",
      wiring_.rank, rank, peers_[static_cast<std::size_t>(rank)].host);
}

bool Engine::Impl::park() {
  // Nothing of this rank is under way, so nothing can come before it submits: nobody need wake it.
  // The first rank of a node also speaks for sets in which it has nothing to do.
  const bool speaks_for_others = last_formed_ > 0 && world_.local_rank == 0;
  const bool idle = in_progress_ == 0 && !leaving_.load() && !speaks_for_others;
  if (!idle) wiring_.node.doorbell->set_asleep(true);
  if (idle || !step()) {
    polling_.store(need_polling());
    return true;
  }
  wiring_.node.doorbell->set_asleep(false);
  return false;
}

void Engine::Impl::run_thread() {
  while (!stop_.load()) {
    if (auto slept = sleep(); !slept.is_ok()) {
      Lock lock(progress_);
      end_epoch(slept.status());
      return;
    }
    {
      Lock lock(progress_);
      stepped_back_.store(false);
      wiring_.node.doorbell->set_asleep(false);
      tick_if_due();
      int idle = 0;
      auto quiet_since = Clock::now();
      // A caller that waits drives better than we do: it has nothing else to do on its core.
      while (waiting_callers_.load() == 0 &&
             ((idle < 16 && Clock::now() - quiet_since < kYieldTime) || !park())) {
        if (step()) {
          idle = 0;
          quiet_since = Clock::now();
        } else {
          ++idle;
          sched_yield();
        }
        if (completion_.has_callbacks()) break;
      }
      // Whoever waited has the last word: it rings when it goes and leaves something behind.
      stepped_back_.store(waiting_callers_.load() > 0);
      hurried_ = completion_.has_callbacks();
    }
    completion_.run_callbacks();
  }
}

/// One sleep of the thread; true when something happened before the tick.
Result<bool> Engine::Impl::sleep() {
  std::array<Poller::Event, 16> events;
  Deadline deadline = Deadline::after(kTick);
  thread_sleeps_.store(true);  // seq_cst: a submission after this rings; one before is seen now
  const bool left_alone = stepped_back_.load() && waiting_callers_.load() == 0;
  if (hurried_ || left_alone || !submission_.is_empty() || stop_.load()) {
    deadline = Deadline::at(Clock::now());
  }
  // A caller that drives polls for us, and rings when it stops.
  const bool brief = polling_.load() && waiting_callers_.load() == 0;
  auto count = brief ? poller_.wait_briefly(events, kPollInterval) : poller_.wait(events, deadline);
  thread_sleeps_.store(false);
  if (!count.is_ok()) return count.status();
  for (std::size_t i = 0; i < count.value(); ++i) handle_event(events[i]);
  return count.value() > 0;
}

void Engine::Impl::drive(const Pending& pending, Deadline deadline) {
  wiring_.node.doorbell->set_asleep(false);
  int idle = 0;
  Clock::time_point spin_end;
  Clock::time_point give_up;
  for (unsigned polls = 0; !pending.done.load(); ++polls) {
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
      // A yield is short among ranks that all wait, and a time slice or more among programs that
      // compute: there a sleeper is woken sooner than a yielder gets its turn.
      const auto now = Clock::now();
      if (idle == spin_polls_) give_up = now + kYieldTime;
      if (now >= give_up) break;
      sched_yield();
    }
    if (polls % 256 == 255 && deadline.has_passed()) break;
  }
  // Leave nothing behind that only we would do: what is ready now goes to the thread.
  if (!park()) wiring_.node.doorbell->ring_self();
}

Status Engine::Impl::wait(Handle handle, Deadline deadline) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  if (pending->done.load()) return pending->status;
  const auto begin = Clock::now();
  bool drove = false;
  bool leaves_work = false;
  waiting_callers_.fetch_add(1);
  for (int tries = 0; !drove && !pending->done.load() && tries < spin_polls_ + 64; ++tries) {
    if (!progress_.try_lock()) {
      if (tries % 16 == 15) sched_yield();
      relax();
      continue;
    }
    drive(*pending, deadline);
    leaves_work = in_progress_ > 0 || leaving_.load();
    progress_.unlock();
    drove = true;
  }
  // seq_cst, as the thread's store and load in the opposite order: either the thread sees that
  // nobody waits any more, or we see that it stepped back for us, and ring. Where nothing else
  // wakes it, it may sleep its whole tick because we were driving.
  waiting_callers_.fetch_sub(1);
  if (!drove || (leaves_work && (stepped_back_.load() || polling_.load())))
    wiring_.node.doorbell->ring_self();
  completion_.run_callbacks();
  if (!pending->done.load()) {
    flush();
    completion_.wait_until_done(*pending, deadline);
  }
  waited_ns_.fetch_add((Clock::now() - begin).count());
  if (pending->done.load()) return pending->status;
  return error(Code::kTimeout,
               "rank {}: '{}' ({}) has not completed in time; it is still under way", wiring_.rank,
               pending->request.name, hvd::describe(pending->request.operation));
}

}  // namespace hvd
