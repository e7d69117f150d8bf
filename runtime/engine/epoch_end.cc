// SPDX-License-Identifier: Apache-2.0
// How an epoch ends: ranks that leave or are lost, and what becomes of what was pending.
#include <algorithm>
#include <utility>

#include "engine/epoch.h"

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

void Epoch::handle(const Watch::Event& event) {
  if (event.kind == Watch::Event::Kind::kProcessEnded) return process_ended(event.index);
  const SetPlane* const plane = planes_.find(event.process_set);
  if (plane == nullptr) return;  // the set was removed meanwhile
  const Link& lane = *plane->lane()[event.index];
  watch_->remove_lane(lane);
  peer_gone(lane.peer_rank(), "its connection was closed", false);
}

void Epoch::process_ended(std::size_t local_rank) {
  const std::string farewell = negotiation_.farewell_of(static_cast<int>(local_rank));
  peer_gone(world_.nodes[static_cast<std::size_t>(world_.node)][local_rank],
            farewell.empty() ? "its process has ended without shutting hvd down" : farewell, true);
}

void Epoch::peer_gone(int rank, const std::string& cause, bool certain) {
  // What it said before it went comes first; other sets may keep us moving for ever.
  for (int steps = 0; steps < kLastWords && step(); ++steps) {
  }
  if (ending_.is_over() || ending_.is_let_go()) return;
  if (left_.contains(rank)) {
    // It said farewell, so most of us can do without it: not those for whom it spoke, nor what is
    // half done with it.
    const auto node = static_cast<std::size_t>(world_.node);
    const bool spoke_for_us = rank == 0 || rank == world_.nodes[node].front();
    if (spoke_for_us || planes_.has_batch_with(rank)) return end(gone_after_leaving(rank));
    negotiation_.forget_reader(rank);
    return;
  }
  const Loss loss = losses_.loss_of(rank, cause);
  if (!certain) return losses_.suspect(loss, Clock::now());
  spread(loss);
  step();
}

void Epoch::look_at_processes(Clock::time_point now) {
  for (const NodeProcesses::Stopped& stopped : processes_.look_if_due(now)) {
    spread(losses_.judge(stopped));
  }
}

bool Epoch::spread(const std::optional<Loss>& loss) {
  if (loss) negotiation_.spread_loss(loss->rank, loss->text);
  return loss.has_value();
}

void Epoch::lose_self(const Status& cause) {
  if (!ending_.is_over()) {
    spread(losses_.loss_of(world_.rank, "its engine cannot wait for events: " + cause.message()));
    step();
  }
  end(cause);  // on the way out a loss may end nothing
}

void Epoch::leave() {
  take_submissions();
  if (!ending_.is_over()) negotiation_.leave();
}

void Epoch::abort(const std::string& cause) {
  if (ending_.is_over()) return;
  negotiation_.leave_farewell(cause);
  spread(losses_.loss_of(world_.rank, cause));
  step();
}

void Epoch::leave_farewell(const std::string& cause) {
  if (ending_.is_over()) return;
  negotiation_.leave_farewell(cause);
  static_cast<void>(negotiation_.flush());
}

void Epoch::close() {
  // Some hear the others through this rank only.
  if (ending_.is_leaving() && !ending_.is_let_go() && !ending_.is_over() &&
      negotiation_.speaks_for_others()) {
    spread(losses_.loss_of(world_.rank, "it shut down alone"));
  }
  end(error(Code::kAborted, "rank {}: hvd was shut down", world_.rank));
  negotiation_.stop_listening();
}

void Epoch::apply(PeerLost& lost) {
  if (end_quietly()) return;
  lost_.add(lost.rank);
  if (log_is_over_) return;  // its device was faster
  if (options_.on_loss && !ending_.is_over())
    options_.on_loss(lost.rank, left_.contains(lost.rank));
  end(left_.contains(lost.rank) ? gone_after_leaving(lost.rank)
                                : Status(Code::kPeerLost, lost.text));
}

void Epoch::apply(GivenUp& given_up) {
  if (end_quietly()) return;
  end(error(Code::kAborted, "rank {}: {}", world_.rank, given_up.text));
}

void Epoch::apply(AllLeft& /*left*/) {
  log_is_over_ = true;
  end_if_left();
}

bool Epoch::end_quietly() {
  if (!ending_.is_leaving() || in_progress_ != 0) return false;
  ending_.let_go();
  parts_.completion.wake_all();
  return true;
}

void Epoch::end_if_left() {
  if (planes_.has_gpu_work() || planes_.has_batches()) return;
  ending_.leave_together();
  end(error(Code::kAborted, "rank {}: every rank has shut down", world_.rank));
}

Status Epoch::gone_after_leaving(int rank) const {
  return error(
      Code::kAborted,
      "rank {}: rank {} on host {} has left the job (shutdown) and ended; the others cannot "
      "go on without it: call shutdown on every rank",
      world_.rank, rank, wiring_.peers[static_cast<std::size_t>(rank)].host);
}

void Epoch::end(const Status& status) {
  if (ending_.is_over()) return;
  // What ended by itself since the last look, a batch that could not start say, ends as it did:
  // nobody looks again.
  for (const auto& plane : planes_.all()) complete_finished(*plane);
  if (ending_.is_over()) return;
  ending_.end(status);
  Completion& completion = parts_.completion;
  // All begin before any is waited for: the sets end side by side, devices and ranks as well.
  const Deadline patience = Deadline::after(kSettleTime);
  const Deadline patience_with_devices = Deadline::after(kDeviceSettleTime);
  for (const auto& plane : planes_.all()) {
    plane->give_up(ending_.left_together() && lost_.empty());
  }
  for (const PendingPtr& pending : broken_) {
    if (pending->gpu.ready == nullptr) completion.finish(pending, status);
  }
  for (const auto& plane : planes_.all()) settle(*plane, true, status, patience_with_devices);
  for (const PendingPtr& pending : std::exchange(broken_, {})) completion.finish(pending, status);
  for (const auto& plane : planes_.all()) settle(*plane, false, status, patience);
  for (const PendingPtr& pending : negotiation_.take_all_requests()) {
    completion.finish(pending, status);
  }
  in_progress_ = 0;
  take_submissions();
  if (wiring_.sets != nullptr) wiring_.sets->interrupt();
  completion.wake_all();
}

void Epoch::settle(SetPlane& plane, bool on_gpu, const Status& status, Deadline deadline) {
  const auto has_ended = [this](int rank) HVD_REQUIRES(progress_) {
    return processes_.has_ended(rank, lost_.contains(rank));
  };
  const Reducer::Abandoned abandoned = plane.settle(on_gpu, has_ended, deadline);
  const auto finish_all = [&](const Status& told) HVD_REQUIRES(progress_) {
    for (const PendingPtr& owner : abandoned.owners) parts_.completion.finish(owner, told);
    if (!on_gpu) return;
    for (const PendingPtr& pending : broken_) {
      const bool is_ours = pending->request.process_set == plane.process_set();
      if (is_ours && pending->gpu.ready != nullptr) parts_.completion.finish(pending, told);
    }
  };
  if (abandoned.is_settled) return finish_all(status);
  if (on_gpu) {
    return finish_all(with_device_at_work(
        status,
        format_text("GPU {} of rank {} on host {}", plane.gpu(), world_.rank, world_.host())));
  }
  finish_all(with_undefined_buffers(status));
  if (wiring_.node.arena != nullptr) wiring_.node.arena->keep();
}

}  // namespace hvd
