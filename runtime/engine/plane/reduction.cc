// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/reduction.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace hvd {

namespace {

/// A task of a backend that needs polling, for another backend that drives it.
class PolledTask final : public Task {
 public:
  explicit PolledTask(std::unique_ptr<Task> task) : task_(std::move(task)) {}
  Progress advance() override { return task_->advance(); }
  const Status& status() const override { return task_->status(); }
  bool needs_polling() const override { return true; }

 private:
  std::unique_ptr<Task> task_;
};

/// True for what ranks find out together before anything is under way; of what fails on one of
/// them, the others have to hear.
bool is_agreed(const Status& failure) {
  return failure.code() == Code::kUnsupported || failure.code() == Code::kInvalidArgument ||
         failure.code() == Code::kMismatch;
}

}  // namespace

Reducer::Reducer(std::vector<Candidate> candidates, std::string wanted, bool warns)
    : candidates_(std::move(candidates)), wanted_(std::move(wanted)), warns_(warns) {}

Selection Reducer::select(const Operation& operation, DataType dtype, Device device) const {
  std::vector<BackendAnswer> answers;
  std::vector<std::size_t> indices;
  const bool on_gpu = device.kind != DeviceKind::kCpu;
  bool is_of_other_kind = false;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (candidate.on_gpu != on_gpu) {
      is_of_other_kind = is_of_other_kind || candidate.name == wanted_;
      continue;
    }
    indices.push_back(i);
    answers.push_back({candidate.name,
                       candidate.backend == nullptr
                           ? candidate.status
                           : candidate.backend->supports(operation, dtype, device),
                       candidate.backend == nullptr ? std::string() : candidate.backend->reach()});
  }
  Selection selection = select_backend(answers, is_of_other_kind ? "" : wanted_);
  if (selection.index) selection.index = indices[*selection.index];
  return selection;
}

const Selection& Reducer::choose(const Batch& batch) {
  const Allreduce reduction = reduction_of(batch.operation).value_or(Allreduce{});
  const bool scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  for (const Choice& choice : choices_) {
    if (choice.kind == batch.operation.index() && choice.op == reduction.op &&
        choice.wire == reduction.wire && choice.scaled == scaled && choice.dtype == batch.dtype &&
        choice.device == batch.device.kind) {
      return choice.selection;
    }
  }
  choices_.push_back({batch.operation.index(), reduction.op, reduction.wire, scaled, batch.dtype,
                      batch.device.kind, select(batch.operation, batch.dtype, batch.device)});
  const Selection& selection = choices_.back().selection;
  log(LogLevel::kInfo, "select", "{} of {}: {}", hvd::describe(batch.operation),
      name_of(batch.dtype), selection.reason);
  warn_of_detour(batch, selection);
  return selection;
}

void Reducer::warn_of_detour(const Batch& batch, const Selection& selection) {
  if (!warns_ || batch.device.kind == DeviceKind::kCpu || !selection.index) return;
  const auto first = std::find_if(candidates_.begin(), candidates_.end(),
                                  [](const Candidate& candidate) { return candidate.on_gpu; });
  const auto index = static_cast<std::size_t>(first - candidates_.begin());
  if (index == *selection.index || candidates_[*selection.index].name == wanted_) return;
  warns_ = false;
  log(LogLevel::kWarning, "select", "{} of {} on GPUs does not go by {}: {} (said once)",
      hvd::describe(batch.operation), name_of(batch.dtype), first->name, selection.reason);
}

void Reducer::start(FusedBatch fused) {
  if (preparation_ == nullptr) {
    start_now(std::move(fused));
  } else {
    waiting_.push_back(std::move(fused));
  }
}

void Reducer::start_now(FusedBatch&& fused) {
  const Selection& selection = choose(fused.batch);
  if (!selection.index) {
    finished_.push_back(
        {std::move(fused.owners), Status(Code::kUnsupported, selection.reason), false});
    return;
  }
  const std::size_t index = *selection.index;
  if (prepare(index, fused)) return;
  Candidate& candidate = candidates_[index];
  if (!candidate.failure.is_ok()) {
    finished_.push_back(
        {std::move(fused.owners), candidate.failure, !is_agreed(candidate.failure)});
    return;
  }
  Backend& backend = *candidate.backend;
  auto ready = ready_events(fused.owners);
  if (!ready.is_ok()) {
    finished_.push_back({std::move(fused.owners), ready.status()});
    return;
  }
  fused.batch.gpu.ready = std::move(ready).value();
  auto task = backend.start(std::move(fused.batch));
  if (!task.is_ok()) {
    finished_.push_back({std::move(fused.owners), task.status()});
    return;
  }
  const bool polled = backend.needs_polling();
  if (polled) ++polled_;
  running_.push_back({std::move(task).value(), std::move(fused.owners), polled, candidate.on_gpu});
}

Result<std::unique_ptr<Task>> Reducer::start_on_host(Batch batch) {
  batch.device = Device{};
  const Selection& selection = choose(batch);
  if (!selection.index) return Status(Code::kUnsupported, selection.reason);
  Backend& backend = *candidates_[*selection.index].backend;
  HVD_TRY_ASSIGN(auto task, backend.start(std::move(batch)));
  if (backend.needs_polling()) task = std::make_unique<PolledTask>(std::move(task));
  return task;
}

/// True when the batch has to wait for the preparation of its backend.
bool Reducer::prepare(std::size_t index, FusedBatch& first) {
  Candidate& candidate = candidates_[index];
  if (std::exchange(candidate.is_prepared, true)) return false;
  auto preparation = candidate.backend->prepare(first.batch);
  candidate.failure = preparation.status();
  if (!preparation.is_ok() || preparation.value() == nullptr) return false;
  preparation_ = std::move(preparation).value();
  preparing_ = index;
  waiting_.push_front(std::move(first));
  return true;
}

void Reducer::finish(Running& running, Progress progress) {
  finished_.push_back({std::move(running.owners),
                       progress == Progress::kDone ? Status::ok() : running.task->status()});
  if (running.polled) --polled_;
  if (running.is_enqueued) --enqueued_;
}

bool Reducer::advance_preparation() {
  if (preparation_ == nullptr) return false;
  const Progress progress = preparation_->advance();
  if (progress != Progress::kDone && progress != Progress::kFailed) {
    return progress == Progress::kMoved;
  }
  Candidate& candidate = candidates_[preparing_];
  if (progress == Progress::kFailed) candidate.failure = preparation_->status();
  preparation_.reset();
  if (candidate.failure.code() == Code::kUnsupported) {
    log(LogLevel::kInfo, "select", "{} is not used: {}", candidate.name,
        candidate.failure.message());
    candidate.status = candidate.failure;
    candidate.backend.reset();
  }
  choices_.clear();  // the backend knows more than when it was chosen
  while (preparation_ == nullptr && !waiting_.empty()) {
    FusedBatch next = std::move(waiting_.front());
    waiting_.pop_front();
    start_now(std::move(next));
  }
  return true;
}

bool Reducer::advance() {
  bool moved = advance_preparation();
  for (auto running = running_.begin(); running != running_.end();) {
    const Progress progress = running->task->advance();
    if (progress != Progress::kBlocked) {
      moved = true;
      if (!std::exchange(running->moved, true)) {
        for (const PendingPtr& owner : running->owners) owner->trace.started();
      }
    }
    if (progress == Progress::kEnqueued) {
      newly_enqueued_.push_back({running->owners, running->task->finish_point()});
      running->is_enqueued = true;
      ++enqueued_;
    }
    if (progress == Progress::kDone || progress == Progress::kFailed) {
      finish(*running, progress);
      running = running_.erase(running);
    } else {
      ++running;
    }
  }
  return moved;
}

bool Reducer::has_gpu_work() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Running& running) { return running.on_gpu; }) ||
         std::any_of(waiting_.begin(), waiting_.end(), [](const FusedBatch& fused) {
           return fused.batch.device.kind != DeviceKind::kCpu;
         });
}

bool Reducer::needs_polling() const {
  const auto polls = [](const Running& running) { return running.task->needs_polling(); };
  return polled_ > 0 || (preparation_ != nullptr && preparation_->needs_polling()) ||
         std::any_of(running_.begin(), running_.end(), polls);
}

void Reducer::give_up(bool together) {
  const bool is_idle = !has_gpu_work() && preparation_ == nullptr;
  const auto take = [this](std::vector<PendingPtr>& owners, bool on_gpu) {
    std::vector<PendingPtr>& taken = on_gpu ? given_up_on_gpu_ : given_up_;
    std::move(owners.begin(), owners.end(), std::back_inserter(taken));
  };
  for (Running& running : running_) take(running.owners, running.on_gpu);
  for (FusedBatch& fused : waiting_) {
    take(fused.owners, fused.batch.device.kind != DeviceKind::kCpu);
  }
  // Others (MPI, ranks of the node, devices) may be at work still, but in no memory of a task: what
  // they were lent is their backend's, which is there until settle() and longer, or the caller's.
  running_.clear();
  waiting_.clear();
  preparation_.reset();
  polled_ = 0;
  enqueued_ = 0;
  for (Candidate& candidate : candidates_) {
    if (candidate.backend == nullptr || (candidate.on_gpu && together && is_idle)) continue;
    candidate.settles = true;
    candidate.backend->begin_settling();
  }
}

Reducer::Abandoned Reducer::settle(bool on_gpu, const std::function<bool(int rank)>& is_gone,
                                   Deadline deadline) {
  Abandoned abandoned;
  abandoned.owners = std::exchange(on_gpu ? given_up_on_gpu_ : given_up_, {});
  for (Candidate& candidate : candidates_) {
    if (candidate.on_gpu != on_gpu || !candidate.settles) continue;
    const bool is_settled = candidate.backend->settle(is_gone, deadline);
    abandoned.is_settled = abandoned.is_settled && is_settled;
  }
  return abandoned;
}

std::string Reducer::describe(const Operation& operation, DataType dtype, Device device) const {
  const Selection selection = select(operation, dtype, device);
  if (!selection.index) return "none: " + selection.reason;
  return selection.reason;
}

bool Reducer::reproducible(Device device) const {
  for (const Candidate& candidate : candidates_) {
    if (candidate.on_gpu != (device.kind != DeviceKind::kCpu)) continue;
    if (candidate.backend != nullptr && !candidate.backend->reproducible()) return false;
  }
  return true;
}

bool Reducer::keeps_memory() const {
  return std::any_of(candidates_.begin(), candidates_.end(), [](const Candidate& candidate) {
    return candidate.backend != nullptr && candidate.backend->keeps_memory();
  });
}

}  // namespace hvd
