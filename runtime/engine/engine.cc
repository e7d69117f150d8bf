// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <utility>

#include "base/format.h"
#include "engine/describe.h"
#include "engine/place.h"

namespace hvd {
namespace {

/// Of a request that is done: kTimeout would say that it is not.
Status outcome_of(const Status& status) {
  return status.code() == Code::kTimeout ? Status(Code::kAborted, status.message()) : status;
}

}  // namespace

Engine::Engine(const PeerInfo& me, const EngineOptions& options)
    : timeline_(me.rank, me.host),
      gpu_requests_(options.gpus, me.rank),
      completion_(options.first_handle),
      submission_(timeline_) {}

Result<EnginePtr> Engine::start(Wiring wiring, std::span<const BackendEntry> table,
                                const EngineOptions& options) {
  const PeerInfo& me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  EnginePtr started(new Engine(me, options));
  HVD_TRY(started->open(std::move(wiring), table, options));
  return started;
}

Status Engine::open(Wiring wiring, std::span<const BackendEntry> table,
                    const EngineOptions& options) {
  const PeerInfo me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  const int sharers = ranks_on_machine(wiring.peers, wiring.rank);
  const auto on_frozen = [this] { driver_->urge_at(Clock::now() + Driver::kUrgeTime); };
  HVD_TRY_ASSIGN(epoch_, Epoch::open(std::move(wiring), table, options,
                                     {submission_, completion_, timeline_, on_frozen}));
  driver_ = std::make_unique<Driver>(
      Driver::Parts{*epoch_, epoch_->watch(), epoch_->doorbell(), submission_, completion_},
      Driver::Pace::of(options.spin, sharers, me.usable_cpus));
  set_changes_ = std::make_unique<SetChanges>(*epoch_, *driver_, submission_, completion_);
  if (!options.timeline.path.empty()) HVD_TRY(timeline_.start(options.timeline));
  const Status started = driver_->start([this] {
    close();
    delete this;
  });
  return started.is_ok() ? started
                         : started.with_context(format_text("rank {} on {}", me.rank, me.host));
}

void EngineEnd::operator()(Engine* engine) const {
  const bool has_started = engine->driver_ != nullptr;
  if (has_started && !engine->driver_->stop()) return;  // its own thread frees it, see start()
  if (has_started) engine->close();
  delete engine;
}

void Engine::close() {
  {
    Lock lock(epoch_->progress());
    epoch_->close();
  }
  completion_.run_callbacks();
}

Status Engine::may_submit(const Request& request) const {
  const Ending& ending = epoch_->ending();
  if (ending.is_over()) return ending.why();
  if (!ending.is_leaving()) return Status::ok();
  return error(Code::kAborted, "rank {}: '{}' comes after shutdown", rank(), request.name);
}

Result<Engine::Handle> Engine::submit(Request request) {
  HVD_TRY(may_submit(request));
  HVD_TRY_ASSIGN(Gpu* const gpu, gpu_requests_.open(request));
  HVD_TRY(epoch_->sets().enter(request));
  const bool more = request.more;
  const PendingPtr pending = completion_.add(std::move(request));
  if (gpu != nullptr) {
    gpu_requests_.attach(*pending, *gpu);
    driver_->enable_urging();
  }
  if (pending->request.on_complete) {
    driver_->note_overdue(*pending, Clock::now() + Driver::kUrgeTimeOfOthers);
  }
  submission_.push(pending);
  if (!more) flush();
  return pending->handle;
}

Status Engine::run(Request request, const KeptRequests::Key& key, Deadline deadline,
                   Handle& handle) {
  handle = 0;
  if (request.is_on_gpu() || request.on_complete) {
    request.more = true;  // the wait that follows drives it: no need to wake the engine's thread
    const bool has_rows = kind_of(request.operation).output == Memory::kLibrary;
    HVD_TRY_ASSIGN(handle, submit(std::move(request)));
    Status status = outcome(handle, deadline);
    const bool is_kept = status.is_ok() ? has_rows : status.code() == Code::kTimeout;
    if (!is_kept) release(std::exchange(handle, 0));
    return status;
  }
  HVD_TRY(may_submit(request));
  HVD_TRY(epoch_->sets().enter(request));
  PendingPtr pending = make_pending(std::move(request));
  pending->key = key.text;
  pending->key_hash = key.hash;
  return run_entered(std::move(pending), deadline, handle);
}

Status Engine::run(PendingPtr kept, Deadline deadline, Handle& handle) {
  handle = 0;
  kept->begin_again();
  HVD_TRY(may_submit(kept->request));
  HVD_TRY(epoch_->sets().enter(kept->request));
  return run_entered(std::move(kept), deadline, handle);
}

Status Engine::run_entered(PendingPtr pending, Deadline deadline, Handle& handle) {
  gpu_requests_.record_inputs();
  submission_.begin(*pending);
  if (!driver_->run(pending, deadline)) {
    handle = completion_.add(pending);
    return pending->not_in_time(rank());
  }
  if (!pending->status.is_ok()) return outcome_of(pending->status);
  if (kind_of(pending->request.operation).output == Memory::kLibrary) {
    handle = completion_.add(pending);
  } else {
    kept_.keep(std::move(pending));
  }
  return Status::ok();
}

void Engine::flush() {
  gpu_requests_.record_inputs();
  driver_->wake();
}

Result<bool> Engine::poll(Handle handle) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  if (!pending->done.load()) {
    driver_->note_overdue(*pending, Clock::now() + Driver::kUrgeTimeOfOthers);
    flush();
  }
  return pending->done.load();
}

bool Engine::await(const PendingRequest& pending, Until until, Deadline deadline) {
  gpu_requests_.record_inputs();
  return driver_->await(pending, until, deadline);
}

Status Engine::wait(Handle handle, Deadline deadline) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  if (pending->done.load()) {
    if (!submission_.is_empty()) flush();
    return pending->status;
  }
  return await(*pending, Until::kDone, deadline) ? pending->status : pending->not_in_time(rank());
}

Status Engine::outcome(Handle handle, Deadline deadline) {
  Status status = wait(handle, deadline);
  if (status.code() != Code::kTimeout) return status;
  HVD_TRY_ASSIGN(const bool is_done, poll(handle));
  // It may be over only since the wait.
  return is_done ? outcome_of(wait(handle, deadline)) : status;
}

Status Engine::wait_stream(Handle handle, StreamHandle stream, Deadline deadline) {
  return wait_stream({&handle, 1}, stream, deadline);
}

Status Engine::wait_stream(std::span<const Handle> handles, StreamHandle stream,
                           Deadline deadline) {
  HVD_TRY_ASSIGN(const std::vector<PendingPtr> all, completion_.find(handles));
  StreamWait stream_wait(stream, rank());
  HVD_TRY(stream_wait.check_memory(all));
  // What was submitted before `stream` waits must not wait for that in turn.
  gpu_requests_.record_inputs();
  if (!submission_.is_empty()) driver_->wake();
  for (const PendingPtr& pending : all) {
    HVD_TRY(stream_wait.check_stream(*pending));
    const bool has_come = pending->done.load() || pending->enqueued.load() ||
                          await(*pending, Until::kEnqueued, deadline);
    if (!has_come) return pending->not_in_time(rank());
    HVD_TRY(stream_wait.add(*pending));
  }
  return Status::ok();
}

Result<const GatherResult*> Engine::gathered(Handle handle, std::size_t index) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  const bool is_done = pending->done.load();
  const bool is_there = is_done ? pending->status.is_ok() : pending->enqueued.load();
  if (!is_there || index >= pending->gathered.size()) {
    return error(Code::kInvalidArgument,
                 "'{}' has no gathered tensor {}: not an allgather, not complete, or failed",
                 pending->request.name, index);
  }
  return static_cast<const GatherResult*>(&pending->gathered[index]);
}

void Engine::release(Handle handle) { release({&handle, 1}); }

void Engine::release(std::span<const Handle> handles) {
  if (gpu_requests_.any()) {
    for (const Handle handle : handles) {
      const auto found = completion_.find(handle);
      if (found.is_ok()) gpu_requests_.free_after_readers(*found.value());
    }
  }
  for (const Handle handle : handles) {
    if (PendingPtr ended = completion_.release(handle)) kept_.keep_released(std::move(ended));
  }
}

Result<int> Engine::add_process_set(std::vector<int> ranks, Deadline deadline) {
  return set_changes_->add(std::move(ranks), deadline);
}

Result<std::vector<std::string>> Engine::tell_all(Result<std::string> mine, Deadline deadline) {
  return set_changes_->tell_all(std::move(mine), deadline);
}

Status Engine::remove_process_set(int process_set, Deadline deadline) {
  return set_changes_->remove(process_set, deadline);
}

Result<int> Engine::join(int process_set, bool active_average, Deadline deadline) {
  if (epoch_->ending().is_over()) return epoch_->ending().why();
  ProcessSets& sets = epoch_->sets();
  HVD_TRY_ASSIGN(const PendingPtr pending, sets.enter_join(process_set, active_average));
  flush();
  // Two threads may wait for one join: the later finds it done.
  if (!pending->done.load() && !await(*pending, Until::kDone, deadline)) {
    return error(Code::kTimeout,
                 "rank {}: not all ranks of process set {} have joined in time; this one stays "
                 "joined: call join again to wait on",
                 rank(), process_set);
  }
  sets.leave_join(process_set, pending);
  HVD_TRY(pending->status);
  return pending->last_joined;
}

std::vector<int> Engine::process_sets() const { return epoch_->sets().ids(); }

Result<std::vector<int>> Engine::process_set_ranks(int process_set) const {
  return epoch_->sets().ranks_of(process_set);
}

Status Engine::shutdown(Deadline deadline) {
  Ending& ending = epoch_->ending();
  if (!ending.begin_to_leave()) return Status::ok();
  if (!ending.is_over()) {
    Lock lock(epoch_->progress());
    epoch_->leave();
  }
  driver_->ring();
  const bool together =
      completion_.wait_until([&] { return ending.is_let_go() || ending.is_over(); }, deadline);
  // The last entries of the log must leave with us; a loss that this rank told is one, too.
  if (ending.is_let_go() || ending.is_over()) driver_->send_last_words();
  if (together) return Status::ok();
  RankSet missing;
  {
    Lock lock(epoch_->progress());
    missing = epoch_->missing();
  }
  return error(
      Code::kTimeout,
      "rank {}: {} did not shut down in time; leaving without them: call shutdown on every "
      "rank, or give it more time",
      rank(), describe_ranks(missing));
}

bool Engine::left_together() const { return epoch_->ending().left_together(); }

void Engine::abort(const std::string& cause) {
  {
    Lock lock(epoch_->progress());
    epoch_->abort(cause);
  }
  completion_.run_callbacks();
}

void Engine::leave_farewell(const std::string& cause) {
  Lock lock(epoch_->progress());
  epoch_->leave_farewell(cause);
}

void Engine::abandon_after_fork() { epoch_->watch().close_in_child(); }

std::string Engine::describe() const { return hvd::describe(*epoch_); }

Engine::Statistics Engine::statistics() const {
  Lock lock(epoch_->progress());
  Statistics copy = epoch_->statistics();
  copy.waited = driver_->waited();
  return copy;
}

}  // namespace hvd
