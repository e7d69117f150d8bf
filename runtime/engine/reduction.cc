// SPDX-License-Identifier: Apache-2.0
#include "engine/reduction.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace hvd {

Reducer::Reducer(std::vector<Candidate> candidates, std::string wanted)
    : candidates_(std::move(candidates)), wanted_(std::move(wanted)) {}

Selection Reducer::select(const Operation& operation, DataType dtype, Device device) const {
  std::vector<BackendAnswer> answers;
  answers.reserve(candidates_.size());
  for (const Candidate& candidate : candidates_) {
    answers.push_back({candidate.name,
                       candidate.backend == nullptr
                           ? candidate.status
                           : candidate.backend->supports(operation, dtype, device),
                       candidate.backend == nullptr ? std::string() : candidate.backend->reach()});
  }
  return select_backend(answers, wanted_);
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
  return selection;
}

void Reducer::start(FusedBatch fused) {
  const Selection& selection = choose(fused.batch);
  if (!selection.index) {
    finished_.push_back(
        {std::move(fused.owners), Status(Code::kUnsupported, selection.reason), false});
    return;
  }
  Backend& backend = *candidates_[*selection.index].backend;
  auto task = backend.start(std::move(fused.batch));
  if (!task.is_ok()) {
    finished_.push_back({std::move(fused.owners), task.status()});
    return;
  }
  const bool polled = backend.needs_polling();
  if (polled) ++polled_;
  running_.push_back({std::move(task).value(), std::move(fused.owners), polled});
}

bool Reducer::advance() {
  bool moved = false;
  for (auto running = running_.begin(); running != running_.end();) {
    const Progress progress = running->task->advance();
    if (progress != Progress::kBlocked) {
      moved = true;
      if (!std::exchange(running->moved, true)) {
        for (const PendingPtr& owner : running->owners) owner->trace.started();
      }
    }
    if (progress == Progress::kDone || progress == Progress::kFailed) {
      finished_.push_back({std::move(running->owners),
                           progress == Progress::kDone ? Status::ok() : running->task->status()});
      if (running->polled) --polled_;
      running = running_.erase(running);
    } else {
      ++running;
    }
  }
  return moved;
}

Reducer::Abandoned Reducer::abandon(const std::function<bool(int rank)>& is_gone,
                                    Deadline deadline) {
  Abandoned abandoned;
  for (Running& running : running_) {
    for (PendingPtr& owner : running.owners) abandoned.owners.push_back(std::move(owner));
  }
  running_.clear();
  polled_ = 0;
  for (Candidate& candidate : candidates_) {
    if (candidate.backend == nullptr) continue;
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

bool Reducer::reproducible() const {
  for (const Candidate& candidate : candidates_) {
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
