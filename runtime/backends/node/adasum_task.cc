// SPDX-License-Identifier: Apache-2.0
#include "backends/node/adasum_task.h"

#include <algorithm>
#include <utility>

#include "collective/adasum.h"
#include "collective/reduce.h"

namespace hvd {
namespace {

/// Scaling as for a sum, without anything to add.
Reduction scaling_of(const Batch& batch) {
  Allreduce allreduce = std::get<Allreduce>(batch.operation);
  allreduce.op = ReduceOp::kSum;
  return Reduction::of(allreduce, batch.dtype, 1);
}

class AdasumTask : public Task {
 public:
  AdasumTask(NodePlane& plane, const Communicator& communicator, Batch batch,
             ExchangeFactory factory)
      : plane_(plane),
        rank_(communicator.rank),
        size_(communicator.size),
        batch_(std::move(batch)),
        scaling_(scaling_of(batch_)),
        real_(batch_.dtype == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32),
        schedule_(communicator.size),
        factory_(std::move(factory)),
        ticket_(plane.take_ticket()) {}

  ~AdasumTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    switch (stage_) {
      case Stage::kLoad:
        return advance_load();
      case Stage::kExchange:
        return advance_exchange();
      case Stage::kMeasure:
        return advance_measure();
      case Stage::kBlend:
        return advance_blend();
      case Stage::kStore:
        return advance_store();
    }
    return Progress::kBlocked;
  }
  const Status& status() const override { return status_; }

 private:
  enum class Stage { kLoad, kExchange, kMeasure, kBlend, kStore };

  /// The place in the list of tensors: what a stage has done so far.
  struct Cursor {
    std::size_t segment = 0;
    std::size_t element = 0;  ///< Of the segment.
    std::size_t before = 0;   ///< Elements of the segments before it.
  };

  std::size_t segment_count() const { return batch_.segments[cursor_.segment].count; }
  /// Elements from the cursor on that one call treats.
  std::size_t chunk() const { return std::min(kAdasumChunk, segment_count() - cursor_.element); }
  void leave_segment() { cursor_ = {cursor_.segment + 1, 0, cursor_.before + segment_count()}; }
  bool at_end() const { return cursor_.segment == batch_.segments.size(); }
  /// My gradients, or those of the peer, at the cursor.
  std::byte* at_cursor(std::vector<std::byte>& gradients) const {
    return gradients.data() + (cursor_.before + cursor_.element) * size_of(real_);
  }
  void enter(Stage stage) {
    stage_ = stage;
    cursor_ = {};
  }

  Progress advance_load() {
    if (held_.empty()) {
      held_.resize(batch_.total_count() * size_of(real_));
      theirs_.resize(held_.size());
    }
    if (at_end()) return enter_level(0);
    const Segment& segment = batch_.segments[cursor_.segment];
    const std::size_t n = chunk();
    if (n > 0) {
      const void* const source =
          static_cast<const std::byte*>(segment.input) + cursor_.element * size_of(batch_.dtype);
      reduce_into(scaling_, ReduceStage::kPartial, at_cursor(held_), {&source, 1}, n);
    }
    cursor_.element += n;
    if (cursor_.element == segment.count) leave_segment();
    return Progress::kMoved;
  }

  Progress enter_level(int level) {
    level_ = level;
    if (level == schedule_.levels()) {
      enter(Stage::kStore);
      return Progress::kMoved;
    }
    enter(Stage::kExchange);
    auto transfer = factory_(plan_level());
    if (!transfer.is_ok()) return fail(transfer.status());
    transfer_ = std::move(transfer).value();
    return Progress::kMoved;
  }

  ExchangePlan plan_level() {
    const auto size = static_cast<std::size_t>(size_);
    ExchangePlan plan{.size = size,
                      .bytes = std::vector<std::size_t>(size * size),
                      .inputs = std::vector<ByteStream>(size),
                      .outputs = std::vector<ByteStream>(size)};
    for (int rank = 0; rank < size_; ++rank) {
      const AdasumSchedule::Step step = schedule_.step(level_, rank);
      if (!step.sends) continue;
      plan.bytes[static_cast<std::size_t>(rank) * size + static_cast<std::size_t>(step.peer)] =
          held_.size();
    }
    const AdasumSchedule::Step mine = my_step();
    const auto peer = static_cast<std::size_t>(std::max(mine.peer, 0));
    if (mine.sends) plan.inputs[peer].append(held_.data(), held_.size());
    if (mine.receives) plan.outputs[peer].append(theirs_.data(), theirs_.size());
    return plan;
  }

  Progress advance_exchange() {
    const Progress progress = transfer_->advance();
    if (progress == Progress::kFailed) return fail(transfer_->status());
    if (progress != Progress::kDone) return progress;
    transfer_.reset();
    const AdasumSchedule::Step step = my_step();
    if (step.receives && !step.combines) std::swap(held_, theirs_);
    if (!step.combines) return enter_level(level_ + 1);
    enter(Stage::kMeasure);
    return Progress::kMoved;
  }

  Progress advance_measure() {
    if (at_end()) return enter_level(level_ + 1);
    const std::size_t n = chunk();
    measure_adasum(real_, at_cursor(lower()), at_cursor(higher()), n, dots_);
    cursor_.element += n;
    if (cursor_.element == segment_count()) {
      weights_ = adasum_weights(std::exchange(dots_, {}));
      stage_ = Stage::kBlend;
      cursor_.element = 0;
    }
    return Progress::kMoved;
  }

  Progress advance_blend() {
    const std::size_t n = chunk();
    blend_adasum(real_, at_cursor(held_), at_cursor(lower()), at_cursor(higher()), n, weights_);
    cursor_.element += n;
    if (cursor_.element == segment_count()) {
      stage_ = Stage::kMeasure;
      leave_segment();
    }
    return Progress::kMoved;
  }

  Progress advance_store() {
    if (at_end()) {
      finished_ = true;
      plane_.finish(ticket_);
      return Progress::kDone;
    }
    const Segment& segment = batch_.segments[cursor_.segment];
    const std::size_t n = chunk();
    if (n > 0 && segment.output != nullptr) {
      const void* const source = at_cursor(held_);
      reduce_into(scaling_, ReduceStage::kFinish,
                  static_cast<std::byte*>(segment.output) + cursor_.element * size_of(batch_.dtype),
                  {&source, 1}, n);
    }
    cursor_.element += n;
    if (cursor_.element == segment.count) leave_segment();
    return Progress::kMoved;
  }

  AdasumSchedule::Step my_step() const { return schedule_.step(level_, rank_); }
  std::vector<std::byte>& lower() { return rank_ < my_step().peer ? held_ : theirs_; }
  std::vector<std::byte>& higher() { return rank_ < my_step().peer ? theirs_ : held_; }

  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }

  NodePlane& plane_;
  int rank_;
  int size_;
  Batch batch_;
  Reduction scaling_;
  DataType real_;
  AdasumSchedule schedule_;
  ExchangeFactory factory_;
  std::uint64_t ticket_;
  std::vector<std::byte> held_;    // my gradients, combined with those of ever more ranks
  std::vector<std::byte> theirs_;  // the peer's
  Stage stage_ = Stage::kLoad;
  Cursor cursor_;
  int level_ = 0;
  std::unique_ptr<Transfer> transfer_;
  AdasumDots dots_;  // of the segment under the cursor
  AdasumWeights weights_;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_adasum_task(NodePlane& plane, const Communicator& communicator,
                                       Batch batch, ExchangeFactory factory) {
  return std::make_unique<AdasumTask>(plane, communicator, std::move(batch), std::move(factory));
}

}  // namespace hvd
