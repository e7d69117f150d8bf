// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "backends/staged/staged_task.h"

namespace hvd {
namespace {

class WholeTask final : public Task {
 public:
  WholeTask(Staging& staging, const Communicator& communicator, Batch batch)
      : staging_(staging),
        communicator_(communicator),
        batch_(std::move(batch)),
        element_(size_of(batch_.dtype)) {}

  Status start(const StartOnHost& start_on_host) {
    Batch inner;
    inner.operation = batch_.operation;
    inner.dtype = batch_.dtype;
    inner.splits = batch_.splits;
    inner.allocate = [this](std::size_t segment, std::span<const std::size_t> counts) {
      return allocate(segment, counts);
    };
    for (const Segment& segment : batch_.segments) {
      HVD_TRY_ASSIGN(const Segment on_host, segment_on_host(segment));
      inner.segments.push_back(on_host);
    }
    HVD_TRY_ASSIGN(on_host_, start_on_host(std::move(inner)));
    return Status::ok();
  }

  Progress advance() override {
    if (end_) return advance_end();
    if (inputs_come_ == nullptr) {
      if (Status status = copy_in(); !status.is_ok()) return fail(std::move(status));
      return Progress::kMoved;
    }
    if (!inputs_come_->has_come.load()) return Progress::kBlocked;
    if (!inputs_come_->status.is_ok()) return fail(inputs_come_->status);
    const Progress progress = on_host_->advance();
    if (progress == Progress::kFailed) return fail(on_host_->status());
    if (progress != Progress::kDone) return progress;
    if (Status status = copy_out(); !status.is_ok()) return fail(std::move(status));
    return Progress::kEnqueued;
  }
  const Status& status() const override { return status_; }
  GpuEventPtr finish_point() const override { return end_->event; }
  bool needs_polling() const override {
    const bool is_on_host = inputs_come_ != nullptr && inputs_come_->has_come.load() && !end_;
    return is_on_host && on_host_->needs_polling();
  }

 private:
  /// A tensor here and there.
  struct Copy {
    PinnedBlock host;
    void* device;
    std::size_t bytes;
  };

  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }
  Progress advance_end() {
    if (!end_->arrival->has_come.load()) return Progress::kBlocked;
    if (!end_->arrival->status.is_ok()) return fail(end_->arrival->status);
    return Progress::kDone;
  }

  /// Elements that this rank gets where the caller gives the output.
  std::size_t output_count(const Segment& segment) const {
    if (!std::holds_alternative<Reducescatter>(batch_.operation)) return segment.count;
    const std::size_t rows = segment.row_count == 0 ? 0 : segment.count / segment.row_count;
    const auto size = static_cast<std::size_t>(communicator_.size);
    const auto rank = static_cast<std::size_t>(communicator_.rank);
    return (first_row_of(rows, size, rank + 1) - first_row_of(rows, size, rank)) *
           segment.row_count;
  }

  Result<Segment> segment_on_host(const Segment& segment) {
    Segment on_host{nullptr, nullptr, segment.count, segment.row_count};
    if (segment.input != nullptr && segment.count > 0) {
      const std::size_t bytes = segment.count * element_;
      HVD_TRY_ASSIGN(auto block, staging_.take_block(bytes));
      on_host.input = block.data();
      inputs_.push_back({std::move(block), const_cast<void*>(segment.input), bytes});
    }
    if (segment.output != nullptr && !kind_of(batch_.operation).has_free_rows) {
      const std::size_t bytes = output_count(segment) * element_;
      HVD_TRY_ASSIGN(auto block, staging_.take_block(bytes));
      on_host.output = block.data();
      outputs_.push_back({std::move(block), segment.output, bytes});
    }
    return on_host;
  }

  Result<void*> allocate(std::size_t segment, std::span<const std::size_t> counts) {
    HVD_TRY_ASSIGN(void* const device, batch_.allocate(segment, counts));
    if (device == nullptr) return device;
    std::size_t bytes = 0;
    for (const std::size_t count : counts) bytes += count * element_;
    HVD_TRY_ASSIGN(auto block, staging_.take_block(bytes));
    void* const host = block.data();
    outputs_.push_back({std::move(block), device, bytes});
    return host;
  }

  Status copy_in() {
    HVD_TRY(staging_.wait_for(batch_.gpu.ready));
    for (const Copy& input : inputs_) {
      HVD_TRY(
          staging_.gpu().copy(input.host.data(), input.device, input.bytes, staging_.to_host()));
    }
    HVD_TRY_ASSIGN(auto end, staging_.end_of_copies_to_host());
    inputs_come_ = std::move(end.arrival);
    return Status::ok();
  }

  Status copy_out() {
    for (const Copy& output : outputs_) {
      if (output.bytes == 0) continue;
      HVD_TRY(staging_.gpu().copy(output.device, output.host.data(), output.bytes,
                                  staging_.to_device()));
    }
    HVD_TRY_ASSIGN(end_, staging_.end_of_copies_to_device());
    return Status::ok();
  }

  Staging& staging_;
  const Communicator& communicator_;
  Batch batch_;
  std::size_t element_;
  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  std::unique_ptr<Task> on_host_;
  ArrivalPtr inputs_come_;
  std::optional<Staging::End> end_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Task>> start_whole(Staging& staging, const Communicator& communicator,
                                          const StartOnHost& start_on_host, Batch batch) {
  auto task = std::make_unique<WholeTask>(staging, communicator, std::move(batch));
  HVD_TRY(task->start(start_on_host));
  return std::unique_ptr<Task>(std::move(task));
}

}  // namespace hvd
