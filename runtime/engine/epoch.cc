// SPDX-License-Identifier: Apache-2.0
#include "engine/epoch.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "base/check.h"
#include "base/ieee_arithmetic.h"
#include "engine/place.h"
#include "engine/plane/direct_operation.h"

namespace hvd {
namespace {

Negotiation make_negotiation(const Communicator& world, Wiring& wiring,
                             const EngineOptions& options) {
  Negotiation::Place place = place_of(world, wiring);  // before the tree takes its links
  ControlTree tree(std::move(wiring.parent), std::move(wiring.children),
                   {wiring.size, options.heartbeat, options.link_timeout, options.silence_timeout},
                   Clock::now());
  return {std::move(place),
          Board::map(wiring.node.memory, world.local_size()),
          wiring.node.doorbell.get(),
          std::move(tree),
          {options.fusion_bytes, options.stall_warning, options.stall_shutdown}};
}

}  // namespace

std::size_t node_memory_bytes(std::span<const BackendEntry> table, int local_size) {
  return whole_pages(Board::bytes(local_size)) + plane_memory_bytes(table, true, local_size);
}

Result<std::unique_ptr<Epoch>> Epoch::open(Wiring wiring, std::span<const BackendEntry> table,
                                           const EngineOptions& options, Parts parts) {
  const std::size_t wanted = node_memory_bytes(table, wiring.node.local_size);
  if (wiring.node.memory.size() < wanted) {
    return error(Code::kInternal, "rank {}: {} bytes of node memory, {} wanted", wiring.rank,
                 wiring.node.memory.size(), wanted);
  }
  HVD_TRY_ASSIGN(auto watch, Watch::open(wiring));
  std::unique_ptr<Epoch> epoch(
      new Epoch(std::move(wiring), table, options, std::move(parts), std::move(watch)));
  Lock lock(epoch->progress_);
  HVD_TRY(epoch->open_world());
  return epoch;
}

Epoch::Epoch(Wiring wiring, std::span<const BackendEntry> table, const EngineOptions& options,
             Parts parts, std::unique_ptr<Watch> watch)
    : world_(world_of(wiring)),
      options_(options),
      table_(table.begin(), table.end()),
      wiring_(std::move(wiring)),
      parts_(std::move(parts)),
      watch_(std::move(watch)),
      sets_(world_, parts_.submission, parts_.completion),
      planes_(world_.rank, world_.size),
      processes_(world_, wiring_.peers, wiring_.node),
      losses_(world_, wiring_.peers, options_),
      negotiation_(make_negotiation(world_, wiring_, options_)),
      left_(world_.size),
      lost_(world_.size) {}

Status Epoch::open_world() {
  const int local_size = world_.local_size();
  std::vector<int> everyone(static_cast<std::size_t>(local_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const NodeGroup& node = wiring_.node;
  SetPlane::Parts parts{
      .communicator = world_,
      .links = {.memory = node.memory.subspan(whole_pages(Board::bytes(local_size))),
                .owner = node.owner,
                .lane = std::move(wiring_.lane),
                .sockets = wiring_.sockets,
                .lanes = wiring_.lanes},
      .doorbell = node.doorbell->among(everyone),
      .arena = {node.arena, everyone}};
  auto plane = std::make_unique<SetPlane>(std::move(parts), table_, options_);
  HVD_TRY(watch_->add_lanes(0, plane->lane()));
  if (DirectRounds* rounds = plane->direct_rounds()) {
    negotiation_.open_direct(plane->communicator(), *rounds);
  }
  sets_.open_world(*plane);
  planes_.open_world(std::move(plane));
  return Status::ok();
}

bool Epoch::step() {
  const IeeeArithmetic as_on_every_rank;  // a caller's thread may be a framework's
  take_submissions();
  if (ending_.is_over()) {
    negotiation_.flush();
    return false;
  }
  for (const auto& plane : planes_.all()) {
    negotiation_.hold(plane->process_set(), plane->host_batches() >= kBusyBatches);
  }
  bool moved = negotiation_.step();
  apply_decisions();
  if (ending_.is_over()) return true;
  moved = advance_planes() || moved;
  if (log_is_over_) end_if_left();
  return moved;
}

Driven::Look Epoch::look(const PendingRequest& awaited) {
  const IeeeArithmetic as_on_every_rank;
  if (ending_.is_over()) return Look::kUnknown;
  const auto verdict = negotiation_.look(awaited);
  if (verdict == DirectRounds::Verdict::kOpen) return Look::kAwaits;
  if (verdict != DirectRounds::Verdict::kAgreed) return Look::kUnknown;
  apply_decisions();
  return Look::kMoved;
}

void Epoch::apply_decisions() {
  negotiation_.take_decisions(decided_);
  for (Decision& decision : decided_) {
    std::visit([this](auto& one) HVD_REQUIRES(progress_) { apply(one); }, decision);
    if (ending_.is_over()) break;
  }
  decided_.clear();
}

void Epoch::submit(const PendingPtr& pending) {
  const IeeeArithmetic as_on_every_rank;
  take_submissions();
  take(pending);
}

void Epoch::take_submissions() {
  if (!parts_.submission.drain(taken_)) return;
  for (PendingPtr& pending : taken_) take(std::move(pending));
  taken_.clear();
}

void Epoch::take(PendingPtr pending) {
  if (ending_.is_over()) return parts_.completion.finish(pending, ending_.why());
  ++in_progress_;
  negotiation_.submit(std::move(pending));
}

void Epoch::apply(RunTogether& run) {
  statistics_.requests += run.requests.size();
  SetPlane* const plane = planes_.find(run.process_set);
  const std::uint64_t number = plane == nullptr ? 0 : plane->next_batch();
  if (parts_.timeline.is_on()) {
    parts_.timeline.decided_batch(number, run.process_set, run.requests.size());
  }
  if (run.bucket != 0) ++statistics_.frozen_buckets;
  for (const PendingPtr& pending : run.requests) {
    pending->trace.decided(number);
    // A barrier is done once every rank has announced it.
    if (pending->request.tensors.empty()) finish(pending, Status::ok());
  }
  if (plane != nullptr) start_batches(*plane, run);  // nothing of a set runs once it is closed
}

void Epoch::start_batches(SetPlane& plane, RunTogether& run) {
  for (const PendingPtr& pending : run.requests) {
    if (!pending->is_stand_in) continue;
    ++in_progress_;
    if (run.process_set == 0) continue;
    plane.request_entered();
    plane.request_unattended();
  }
  for (FusedBatch& fused : make_batches(run.requests)) {
    if (auto* allreduce = std::get_if<Allreduce>(&fused.batch.operation)) {
      allreduce->divisor = run.divisor;
    }
    if (run.bucket != 0) fused.batch.gpu.bucket = {plane.schedules(), run.bucket};
    if (fused.batch.gpu.is_neutral) {
      fused.batch.device.index = plane.gpu_of_stand_in(options_.gpus, world_.local_rank);
    }
    if (fused.batch.device.kind != DeviceKind::kCpu) {
      fused.batch.gpu.turn = planes_.take_turn(run.process_set, fused.batch.device);
    }
    ++statistics_.batches;
    statistics_.bytes += fused.batch.total_count() * size_of(fused.batch.dtype);
    plane.start(std::move(fused));
  }
}

void Epoch::apply(RunDirect& run) {
  SetPlane* const plane = planes_.find(run.process_set);
  HVD_CHECK(plane != nullptr);  // no request of it is in flight when a set is removed
  PendingRequest& pending = *run.request;
  ++statistics_.requests;
  ++statistics_.direct;
  statistics_.bytes += pending.description.bytes();
  const std::uint64_t number = plane->next_batch();
  if (parts_.timeline.is_on()) parts_.timeline.decided_batch(number, run.process_set, 1);
  pending.trace.decided(number);
  pending.trace.started();
  const Status taken = take_direct(pending, plane->communicator(), run.places);
  finish(negotiation_.end_direct(run.process_set), taken);
}

void Epoch::apply(FailRequest& fail) { finish(fail.request, fail.status); }

void Epoch::apply(PeerLeft& left) { left_.add(left.rank); }

void Epoch::apply(SetFormed& formed) {
  const auto formed_plane = planes_.form(formed.process_set, formed.ranks, world_.rank);
  if (!formed_plane.is_ok()) return end(formed_plane.status());
  SetPlane* const plane = formed_plane.value();
  if (plane != nullptr) {
    const Status watched = watch_->add_lanes(formed.process_set, plane->lane());
    if (!watched.is_ok()) return end(watched);
    if (DirectRounds* rounds = plane->direct_rounds()) {
      negotiation_.open_direct(plane->communicator(), *rounds);
    }
  }
  sets_.add(formed.process_set, formed.ranks.ranks(), plane);
}

void Epoch::apply(PassedOver& passed) {
  parts_.submission.pass_over(passed.process_set, passed.name);
}

void Epoch::apply(BucketsChanged& buckets) {
  if (!buckets.are_frozen) {
    ++statistics_.thaws;
    return;
  }
  if (SetPlane* const plane = planes_.find(buckets.process_set)) plane->count_schedule();
  parts_.on_frozen();
}

bool Epoch::advance_planes() {
  bool moved = false;
  for (const auto& plane : planes_.all()) {
    moved = plane->advance() || moved;
    complete_finished(*plane);
  }
  return moved;
}

void Epoch::complete_finished(SetPlane& plane) {
  mark_enqueued(plane);
  for (Reducer::Finished& done : plane.take_finished()) {
    const bool breaks = !done.status.is_ok() && done.started;
    if (breaks) {
      done.status = done.status.with_context(
          format_text("rank {} on host {} failed in a collective", world_.rank, world_.host()));
    }
    if (breaks && done.status.code() == Code::kPeerLost) {
      losses_.suspect({world_.rank, done.status.message()}, Clock::now());
      for (PendingPtr& owner : done.owners) broken_.push_back(std::move(owner));
      continue;
    }
    for (const PendingPtr& owner : done.owners) {
      if (!done.status.is_ok() && owner->failure.is_ok()) owner->failure = done.status;
      if (--owner->batches_left == 0) finish(owner, owner->failure);
    }
    // Half a collective cannot be taken back: the others wait for bytes that will not come.
    if (breaks) negotiation_.spread_loss(world_.rank, done.status.message());
  }
}

void Epoch::mark_enqueued(SetPlane& plane) {
  bool is_news = false;
  for (const Reducer::Enqueued& batch : plane.take_enqueued()) {
    HVD_CHECK(batch.finish_point != nullptr);
    for (const PendingPtr& owner : batch.owners) {
      owner->gpu.finish_points.push_back(batch.finish_point);
      if (--owner->gpu.batches_to_enqueue > 0) continue;
      const bool counts = owner->request.process_set != 0 && !owner->is_stand_in;
      if (counts && !owner->done.load()) plane.request_unattended();
      owner->enqueued.store(true);  // seq_cst: publishes the points, before the look for sleepers
      is_news = true;
    }
  }
  if (is_news) parts_.completion.wake_all();
}

void Epoch::finish(const PendingPtr& pending, const Status& status) {
  --in_progress_;
  if (pending->request.process_set != 0) {
    // Before the caller is told: it may remove the set at once.
    SetPlane* const plane = planes_.find(pending->request.process_set);
    if (plane != nullptr) plane->request_left(*pending);
  }
  parts_.completion.finish(pending, status);
}

void Epoch::tick(Clock::time_point now) {
  if (ending_.is_over()) return;
  negotiation_.tick(now);
  while (const auto ended = processes_.take_ended_by_lock()) process_ended(*ended);
  if (ending_.is_over()) return;
  if (const Link* silent = planes_.find_silent(options_.link_timeout, losses_.suspects())) {
    spread(losses_.loss_of(silent->peer_rank(), silent->describe_silence(silent->unanswered())));
  }
  look_at_processes(now);
  const auto due = losses_.take_due(now, negotiation_.awaits_answer() || planes_.awaits_answer());
  if (!due || (left_.contains(due->rank) && broken_.empty())) return;
  if (!spread(losses_.blame_first_of_node(processes_))) spread(due);
}

Clock::time_point Epoch::urge(Clock::time_point now) {
  if (ending_.is_over()) return Clock::time_point::max();
  take_submissions();  // what a caller waits for is looked at where it has come to
  return negotiation_.urge(now);
}

/// Where nothing of this rank is under way nothing can come before it submits. The first rank of a
/// node also speaks for process sets in which it has nothing to do.
bool Epoch::may_be_needed() const {
  const bool speaks_for_others = planes_.last_formed() > 0 && world_.local_rank == 0;
  return in_progress_ > 0 || ending_.is_leaving() || speaks_for_others;
}

Result<std::unique_ptr<SetPlane>> Epoch::connect_set(SetWiring::Plan plan,
                                                     const std::vector<int>& ranks) {
  SetPlane::Parts parts;
  parts.communicator = part_of(world_, ranks);
  plan.nodes = world_ranks_by_node(parts.communicator);
  plan.memory_bytes = [this](int local_size) {
    return plane_memory_bytes(table_, false, local_size);
  };
  HVD_TRY_ASSIGN(parts.links, wiring_.sets->connect(plan));
  std::vector<int> neighbours;
  const std::vector<int>& node = world_.nodes[static_cast<std::size_t>(world_.node)];
  for (std::size_t i = 0; i < node.size(); ++i) {
    if (std::binary_search(ranks.begin(), ranks.end(), node[i])) {
      neighbours.push_back(static_cast<int>(i));
    }
  }
  parts.doorbell = wiring_.node.doorbell->among(neighbours);
  parts.arena = {wiring_.node.arena, neighbours};
  return std::make_unique<SetPlane>(std::move(parts), table_, options_);
}

void Epoch::add_set(const RankSet& ranks) {
  if (!ending_.is_over()) negotiation_.add_set(ranks);
}

std::unique_ptr<SetPlane> Epoch::remove_set(int process_set) {
  sets_.erase(process_set);
  negotiation_.close_direct(process_set);  // its memory goes with the plane
  auto plane = planes_.retire(process_set);
  if (plane != nullptr) watch_->remove_lanes(process_set, plane->lane());
  negotiation_.remove_set(process_set);
  return plane;
}

EngineStatistics Epoch::statistics() const {
  EngineStatistics copy = statistics_;
  copy.in_full = negotiation_.announced_in_full();
  copy.names = negotiation_.known_names();
  copy.evictions = negotiation_.evictions();
  return copy;
}

}  // namespace hvd
