// SPDX-License-Identifier: Apache-2.0
// What drives the stages: one step, and the engine's thread. A caller that waits: engine_wait.cc.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "base/ieee_arithmetic.h"
#include "base/log.h"
#include "engine/engine_impl.h"

namespace hvd {
namespace {

Status with_undefined_buffers(const Status& status) {
  return error(status.code(),
               "{}; a rank of this node that does not answer may still write into tensors of "
               "hvd_alloc(): buffers undefined, their memory is not used again",
               status.message());
}

Status with_device_at_work(const Status& status, const std::string& gpu) {
  return error(status.code(),
               "{}; {} has not come to the end of what was put into its streams before, and may "
               "still write to the tensors of this operation: keep their memory, and do not read "
               "it, until the device has been synchronised",
               status.message(), gpu);
}

}  // namespace

SetPlane* Engine::Impl::find_plane(int process_set) {
  for (const auto& plane : planes_) {
    if (plane->communicator.process_set == process_set) return plane.get();
  }
  return nullptr;
}

bool Engine::Impl::has_batch_with(int rank) const {
  return std::any_of(planes_.begin(), planes_.end(), [rank](const auto& plane) {
    const std::vector<int>& members = plane->communicator.world_ranks;
    return plane->reduction->in_flight() > 0 &&
           std::find(members.begin(), members.end(), rank) != members.end();
  });
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
  const IeeeArithmetic as_on_every_rank;  // a caller's thread may be a framework's
  if (is_over()) {
    take_submissions();
    negotiation_->flush();
    return false;
  }
  take_submissions();
  for (const auto& plane : planes_) {
    negotiation_->hold(
        plane->communicator.process_set,
        plane->reduction->in_flight() - plane->reduction->enqueued() >= kBusyBatches);
  }
  bool moved = negotiation_->step();
  for (Decision& decision : negotiation_->take_decisions()) {
    apply(decision);
    if (is_over()) return true;
  }
  moved = advance_planes() || moved;
  if (log_is_over_) end_if_left();
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
    if (end_quietly()) return;
    lost_.add(lost->rank);
    if (log_is_over_) return;  // its device was faster
    if (options_.on_loss && !is_over()) options_.on_loss(lost->rank);
    end_epoch(left_.contains(lost->rank) ? gone_after_leaving(lost->rank)
                                         : Status(Code::kPeerLost, lost->text));
  } else if (const auto* given_up = std::get_if<GivenUp>(&decision)) {
    if (!end_quietly()) {
      end_epoch(error(Code::kAborted, "rank {}: {}", wiring_.rank, given_up->text));
    }
  } else if (const auto* formed = std::get_if<SetFormed>(&decision)) {
    apply_formed(*formed);
  } else if (const auto* passed = std::get_if<PassedOver>(&decision)) {
    submission_.pass_over(passed->process_set, passed->name);
  } else if (const auto* buckets = std::get_if<BucketsChanged>(&decision)) {
    if (!buckets->are_frozen) {
      ++statistics_.thaws;
      return;
    }
    if (SetPlane* const plane = find_plane(buckets->process_set)) ++plane->schedules;
    urge_at(Clock::now() + kUrgeTime);  // callers may wait already
  } else if (std::holds_alternative<AllLeft>(decision)) {
    log_is_over_ = true;
    end_if_left();
  }
}

/// True where this rank is on the way out, and nothing of it is missing.
bool Engine::Impl::end_quietly() {
  if (!leaving_.load() || in_progress_ != 0) return false;
  all_left_.store(true);
  completion_.wake_all();
  return true;
}

void Engine::Impl::run_together(RunTogether& run) {
  statistics_.requests += run.requests.size();
  SetPlane* plane = find_plane(run.process_set);
  const std::uint64_t number = plane == nullptr ? 0 : ++plane->batches;
  if (timeline_.is_on()) {
    timeline_.decided_batch(number, run.process_set, run.requests.size());
  }
  if (run.bucket != 0) ++statistics_.frozen_buckets;
  for (const PendingPtr& pending : run.requests) {
    pending->trace.decided(number);
    // A barrier is done once every rank has announced it.
    if (pending->request.tensors.empty()) finish(pending, Status::ok());
  }
  if (plane == nullptr) return;  // nothing of a set runs once it is closed
  for (const PendingPtr& pending : run.requests) {
    if (!pending->is_stand_in) continue;
    ++in_progress_;
    if (run.process_set == 0) continue;
    plane->in_flight.fetch_add(1);
    plane->unattended.fetch_add(1);
  }
  for (FusedBatch& fused : make_batches(run.requests)) {
    if (auto* allreduce = std::get_if<Allreduce>(&fused.batch.operation)) {
      allreduce->divisor = run.divisor;
    }
    if (run.bucket != 0) fused.batch.bucket = {plane->schedules, run.bucket};
    if (fused.batch.is_neutral) fused.batch.device.index = gpu_of_stand_in(*plane);
    if (fused.batch.device.kind != DeviceKind::kCpu) {
      fused.batch.turn = launch_order_.take_turn(run.process_set, fused.batch.device);
    }
    ++statistics_.batches;
    statistics_.bytes += fused.batch.total_count() * size_of(fused.batch.dtype);
    plane->reduction->start(std::move(fused));
  }
}

void Engine::Impl::complete_finished(SetPlane& plane) {
  if (plane.reduction->enqueued() > 0) mark_enqueued(plane);
  for (Reducer::Finished& done : plane.reduction->take_finished()) {
    const bool breaks = !done.status.is_ok() && done.started;
    if (breaks) {
      done.status = done.status.with_context(
          format_text("rank {} on host {} failed in a collective", wiring_.rank,
                      peers_[static_cast<std::size_t>(wiring_.rank)].host));
    }
    if (breaks && done.status.code() == Code::kPeerLost) {
      suspect(wiring_.rank, done.status.message());
      for (PendingPtr& owner : done.owners) broken_.push_back(std::move(owner));
      continue;
    }
    for (const PendingPtr& owner : done.owners) {
      if (!done.status.is_ok() && owner->failure.is_ok()) owner->failure = done.status;
      if (--owner->batches_left == 0) finish(owner, owner->failure);
    }
    // Half a collective cannot be taken back: the others wait for bytes that will not come.
    if (breaks) negotiation_->spread_loss(wiring_.rank, done.status.message());
  }
}

void Engine::Impl::finish(const PendingPtr& pending, const Status& status) {
  --in_progress_;
  if (pending->request.process_set != 0) {
    // Before the caller is told: it may remove the set at once.
    if (SetPlane* plane = find_plane(pending->request.process_set)) {
      if (pending->ends_by_itself()) plane->unattended.fetch_sub(1);
      plane->in_flight.fetch_sub(1);
    }
  }
  completion_.finish(pending, status);
}

void Engine::Impl::end_epoch(const Status& status) {
  if (is_over()) return;
  // What ended by itself since the last look, a batch that could not start say, ends as it did:
  // nobody looks again.
  for (const auto& plane : planes_) complete_finished(*plane);
  if (is_over()) return;
  {
    Lock lock(over_mutex_);
    over_status_ = status;
  }
  over_.store(true);
  // All begin before any is waited for: the sets end side by side, devices and ranks as well.
  const Deadline patience = Deadline::after(kSettleTime);
  const Deadline patience_with_devices = Deadline::after(kDeviceSettleTime);
  for (const auto& plane : planes_) {
    plane->reduction->give_up(left_together_.load() && lost_.empty());
  }
  for (const PendingPtr& pending : broken_) {
    if (pending->ready == nullptr) completion_.finish(pending, status);
  }
  for (const auto& plane : planes_) settle(*plane, true, status, patience_with_devices);
  for (const PendingPtr& pending : std::exchange(broken_, {})) completion_.finish(pending, status);
  for (const auto& plane : planes_) settle(*plane, false, status, patience);
  for (const PendingPtr& pending : negotiation_->take_all_requests()) {
    completion_.finish(pending, status);
  }
  in_progress_ = 0;
  take_submissions();
  if (wiring_.sets != nullptr) wiring_.sets->interrupt();
  completion_.wake_all();
}

/// Fails what the plane had under way on GPUs, or on the CPU, once nobody works in its tensors any
/// more; at the deadline in any case, and with words about it.
void Engine::Impl::settle(SetPlane& plane, bool on_gpu, const Status& status, Deadline deadline) {
  const auto is_gone = [&](int rank) HVD_REQUIRES(progress_) {
    return has_ended(plane.communicator.world_ranks[static_cast<std::size_t>(rank)]);
  };
  const Reducer::Abandoned abandoned = plane.reduction->settle(on_gpu, is_gone, deadline);
  const auto finish_all = [&](const Status& told) HVD_REQUIRES(progress_) {
    for (const PendingPtr& owner : abandoned.owners) completion_.finish(owner, told);
    if (!on_gpu) return;
    for (const PendingPtr& pending : broken_) {
      const bool is_ours = pending->request.process_set == plane.communicator.process_set;
      if (is_ours && pending->ready != nullptr) completion_.finish(pending, told);
    }
  };
  if (abandoned.is_settled) return finish_all(status);
  if (on_gpu) {
    const auto& host = peers_[static_cast<std::size_t>(wiring_.rank)].host;
    return finish_all(with_device_at_work(
        status, format_text("GPU {} of rank {} on host {}", plane.gpu.load(), wiring_.rank, host)));
  }
  finish_all(with_undefined_buffers(status));
  if (wiring_.node.arena != nullptr) wiring_.node.arena->keep();
}

bool Engine::Impl::has_ended(int rank) const {
  if (rank == wiring_.rank) return false;
  const auto& local = world_.nodes[static_cast<std::size_t>(world_.node)];
  const auto found = std::find(local.begin(), local.end(), rank);
  if (found == local.end()) return true;  // on another node: it cannot reach our memory
  const auto index = static_cast<std::size_t>(found - local.begin());
  const NodeGroup& node = wiring_.node;
  // A lost one may live: one that is stopped goes on to write when it is continued.
  if (index < node.pid_fds.size() && node.pid_fds[index].is_open()) {
    pollfd process{node.pid_fds[index].get(), POLLIN, 0};
    return ::poll(&process, 1, 0) > 0;
  }
  if (node.life_locks.is_open()) return node.life_locks.has_ended(static_cast<int>(index));
  return lost_.contains(rank);
}

void Engine::Impl::tick_if_due() {
  const auto now = Clock::now();
  urge_if_due(now, now >= next_tick_);
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  if (is_over()) return;
  negotiation_->tick(now);
  look_at_locks();
  if (is_over()) return;
  check_lanes();
  look_at_processes(now);
  if (!suspicion_ || now < suspicion_->due) return;
  if (now < suspicion_->due + options_.link_timeout && awaits_answer()) return;
  const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
  if (left_.contains(suspicion.rank) && broken_.empty()) return;
  if (blames_first_of_node()) return;
  negotiation_->spread_loss(suspicion.rank, suspicion.text);
}

void Engine::Impl::yield_core() {
  const auto before = Clock::now();
  sched_yield();
  const auto now = Clock::now();
  if (now - before > long_yield_) crowded_until_ = now + kCrowdedTime;
}

/// Where nothing of this rank is under way nothing can come before it submits. The first rank of a
/// node also speaks for process sets in which it has nothing to do.
bool Engine::Impl::may_be_needed() const {
  const bool speaks_for_others = last_formed_ > 0 && world_.local_rank == 0;
  return in_progress_ > 0 || leaving_.load() || speaks_for_others;
}

bool Engine::Impl::park() {
  const bool needed = may_be_needed();
  if (needed) wiring_.node.doorbell->set_asleep(true);
  if (!needed || !step()) {
    polling_.store(need_polling());
    return true;
  }
  wiring_.node.doorbell->set_asleep(false);
  return false;
}

void Engine::Impl::run_thread() {
  while (!stop_.load()) {
    if (auto slept = sleep(); !slept.is_ok()) return lose_myself(slept.status());
    {
      Lock lock(progress_);
      stepped_back_.store(false);
      wiring_.node.doorbell->set_asleep(false);
      tick_if_due();
      int idle = 0;
      bool parked = false;
      auto quiet_since = Clock::now();
      // A caller that waits drives better than we do: it has nothing else to do on its core.
      const auto may_yield = [&]() HVD_REQUIRES(progress_) {
        const auto now = Clock::now();
        return idle < 16 && now - quiet_since < kYieldTime && now >= crowded_until_;
      };
      while (waiting_callers_.load() == 0) {
        if (step()) {
          idle = 0;
          quiet_since = Clock::now();
        } else if (may_yield()) {
          ++idle;
          yield_core();
        } else if (park()) {
          parked = true;
          break;
        }
        if (completion_.has_callbacks()) break;
      }
      // Who holds us up has the last word: it rings when it goes and leaves something behind.
      stepped_back_.store(!parked);
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
  if (left_alone || !submission_.is_empty() || stop_.load()) {
    deadline = Deadline::at(Clock::now());
  }
  deadline = deadline.earlier(next_urge());
  // A caller that drives polls for us, and rings when it stops.
  const bool brief = polling_.load() && waiting_callers_.load() == 0;
  auto count = brief ? poller_.wait_briefly(events, kPollInterval) : poller_.wait(events, deadline);
  thread_sleeps_.store(false);
  if (!count.is_ok()) return count.status();
  for (std::size_t i = 0; i < count.value(); ++i) handle_event(events[i]);
  return count.value() > 0;
}

}  // namespace hvd
