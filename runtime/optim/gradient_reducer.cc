// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_reducer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "optim/gradient_norm.h"

namespace hvd {

namespace {

/// How long a step that failed waits for what is still in flight, before the job ends.
constexpr std::chrono::seconds kPatience{10};

constexpr std::size_t kNorm = std::numeric_limits<std::size_t>::max();

}  // namespace

Result<int> GradientReducer::ranks(const Engine& engine) const {
  const int process_set = set_.options().process_set;
  if (process_set == 0) return engine.world().size;
  HVD_TRY_ASSIGN(const auto members, engine.process_set_ranks(process_set));
  if (!std::binary_search(members.begin(), members.end(), engine.world().rank)) {
    return error(Code::kInvalidArgument,
                 "rank {}: gradients of process set {}, which this rank is not in; let its members "
                 "alone reduce them",
                 engine.world().rank, process_set);
  }
  return static_cast<int>(members.size());
}

Status GradientReducer::submit(Engine& engine, std::size_t index, Request request) {
  HVD_TRY_ASSIGN(const auto handle, engine.submit(std::move(request)));
  submitted_.push_back({index, handle});
  return Status::ok();
}

Status GradientReducer::submit_whole(Engine& engine, bool is_end) {
  auto request = set_.whole_request(is_end);
  if (!request) return Status::ok();
  HVD_TRY_ASSIGN(whole_, engine.submit(*std::move(request)));
  return Status::ok();
}

Status GradientReducer::ready(Engine& engine, const Ready& one) {
  HVD_TRY_ASSIGN(const int count, ranks(engine));
  HVD_TRY_ASSIGN(auto request, set_.ready(one.index, one.data, one.last_pass, count));
  // Before the last gradient, which may wake the engine.
  HVD_TRY(submit_whole(engine, false));
  if (request) {
    request->stream = one.stream;
    return submit(engine, one.index, *std::move(request));
  }
  // A local gradient came last: nothing else would wake the engine for those before it.
  if (set_.is_worth_waking()) engine.flush();
  return Status::ok();
}

Status GradientReducer::mark_elsewhere(Engine& engine, std::size_t index) {
  HVD_TRY(set_.mark_elsewhere(index));
  return submit_whole(engine, false);
}

void GradientReducer::note(Status status) {
  if (!status.is_ok() && failure_.is_ok()) failure_ = std::move(status);
}

Result<GradientSet::Round> GradientReducer::exchange(Engine& engine, bool is_final,
                                                     Deadline deadline) {
  const auto told = [&]() -> Result<GradientSet::Round> {
    HVD_TRY(submit_whole(engine, true));
    if (whole_ != 0) HVD_TRY(engine.outcome(whole_, deadline));
    if (set_.size() == 0 || set_.is_whole())
      return GradientSet::Round{.needed = {}, .is_over = true};
    if (use_ == 0) {
      HVD_TRY_ASSIGN(use_, engine.submit(set_.use_request(is_final)));
    }
    HVD_TRY(engine.outcome(use_, deadline));
    return set_.end_round();
  };
  auto round = told();
  if (round.status().code() == Code::kTimeout) return round;
  if (!round.is_ok()) {
    settle(engine, Deadline::after(kPatience), round.status().message());
    return round;
  }
  for (Engine::Handle* const handle : {&whole_, &use_}) {
    if (*handle != 0) engine.release(*handle);
    *handle = 0;
  }
  return round;
}

/// Ok when the outcome of all that is submitted is known; kTimeout else.
Status GradientReducer::wait_for_stage(Engine& engine,
                                       const std::function<Status(const Submitted&)>& wait) {
  while (waited_ < submitted_.size()) {
    const Submitted one = submitted_[waited_];
    Status status = wait(one);
    if (status.code() == Code::kTimeout) {
      // An operation may itself fail with kTimeout; in flight is what poll() says.
      const auto done = engine.poll(one.handle);
      if (done.is_ok() && !done.value()) return status;
      status = wait(one);  // it may be over only since the wait
    }
    failed_.push_back(!status.is_ok());
    note(std::move(status));
    ++waited_;
  }
  return Status::ok();
}

/// A gradient that failed did so on all ranks, so that all go on without it.
void GradientReducer::start_next_stage(Engine& engine) {
  const std::size_t end = submitted_.size();
  for (std::size_t i = stage_begin_; i < end; ++i) {
    const Submitted done = submitted_[i];
    if (failed_[i] || done.index == kNorm || !set_.is_compressed(done.index)) continue;
    const auto gathered = engine.gathered(done.handle, 0);
    auto request = set_.resume(done.index, gathered.is_ok() ? gathered.value() : nullptr);
    note(request.status());
    if (!request.is_ok() || !request.value()) continue;
    note(submit(engine, done.index, *std::move(request).value()));
  }
  stage_begin_ = end;
}

/// Norms of reduced gradients are equal on all ranks and need no message; those of local gradients
/// are summed over the ranks, in one scalar.
Status GradientReducer::finish_reductions(Engine& engine) {
  is_finishing_ = true;
  if (!failure_.is_ok()) return Status::ok();
  HVD_TRY_ASSIGN(const int count, ranks(engine));
  set_.finish(count);
  if (set_.options().clip_norm == 0) return Status::ok();
  const GradientSet::SquaredNorm norm = set_.squared_norm();
  reduced_norm_ = norm.reduced;
  *local_norm_ = norm.local;
  if (!set_.has_local()) return Status::ok();
  Request request;
  request.name = set_.norm_name();
  request.process_set = set_.options().process_set;
  request.operation = Allreduce{.op = ReduceOp::kSum};
  request.tensors.push_back({.input = local_norm_.get(),
                             .output = local_norm_.get(),
                             .dtype = DataType::kFloat64,
                             .shape = {1}});
  request.on_complete = [norm = local_norm_](const Status&) {};
  return submit(engine, kNorm, std::move(request));
}

Status GradientReducer::end_step(Engine& engine) {
  Status outcome = std::move(failure_);
  if (outcome.is_ok() && set_.options().clip_norm != 0) {
    last_norm_ = std::sqrt(reduced_norm_ + *local_norm_) / set_.loss_scale();
    const double factor = clip_factor(last_norm_, set_.options().clip_norm);
    if (factor != 1) set_.scale(factor);
  }
  abandon(&engine);
  // kTimeout from here means "wait again"; the step is over.
  if (outcome.code() == Code::kTimeout) outcome = Status(Code::kAborted, outcome.message());
  return outcome;
}

Status GradientReducer::wait(Engine& engine, Deadline deadline, bool ends) {
  for (;;) {
    HVD_TRY(wait_for_stage(
        engine, [&](const Submitted& one) { return engine.wait(one.handle, deadline); }));
    start_next_stage(engine);
    if (!ends && waited_ == submitted_.size() && failure_.is_ok()) return Status::ok();
    if (waited_ == submitted_.size() && !is_finishing_) note(finish_reductions(engine));
    if (waited_ == submitted_.size()) return end_step(engine);
    engine.flush();
  }
}

/// Nothing is left to do after the reductions of gradients in GPU memory: their sets refuse what
/// computes on the host. Handles are released while the device works: requests in flight go on.
Status GradientReducer::wait_stream(Engine& engine, StreamHandle stream, Deadline deadline,
                                    bool ends) {
  if (set_.options().device.kind == DeviceKind::kCpu) {
    return error(Code::kInvalidArgument,
                 "gradients in CPU memory are in no stream's order: wait for them with "
                 "hvd_gradients_wait()");
  }
  std::vector<Engine::Handle> handles;
  for (std::size_t i = waited_; i < submitted_.size(); ++i) handles.push_back(submitted_[i].handle);
  if (engine.wait_stream(handles, stream, deadline).is_ok()) {
    waited_ = submitted_.size();
    failed_.resize(waited_, false);
  }
  // One by one to learn which has failed, or is not in time.
  HVD_TRY(wait_for_stage(engine, [&](const Submitted& one) {
    return engine.wait_stream(one.handle, stream, deadline);
  }));
  if (!ends && failure_.is_ok()) return Status::ok();
  return end_step(engine);
}

std::vector<Engine::Handle> GradientReducer::handles() const {
  std::vector<Engine::Handle> all;
  for (const Submitted& one : submitted_) all.push_back(one.handle);
  for (const Engine::Handle handle : {whole_, use_}) {
    if (handle != 0) all.push_back(handle);
  }
  return all;
}

void GradientReducer::settle(Engine& engine, Deadline deadline, const std::string& cause) {
  for (const Engine::Handle handle : handles()) {
    if (engine.wait(handle, deadline).code() != Code::kTimeout) continue;
    const auto done = engine.poll(handle);
    if (!done.is_ok() || done.value()) continue;
    engine.abort(cause);  // which fails all that is in flight, so that the wait ends
    static_cast<void>(engine.wait(handle, kForever));
  }
  abandon(&engine);
}

void GradientReducer::abandon(Engine* engine) {
  if (engine != nullptr) engine->release(handles());
  whole_ = 0;
  use_ = 0;
  submitted_.clear();
  failed_.clear();
  stage_begin_ = 0;
  waited_ = 0;
  failure_ = Status::ok();
  is_finishing_ = false;
  set_.begin_step();
}

}  // namespace hvd
