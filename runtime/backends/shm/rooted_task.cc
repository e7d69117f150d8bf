// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/rooted.h"
#include "base/status.h"

namespace hvd {
namespace {

class RootedTask : public Task {
 public:
  RootedTask(NodePlane& plane, const Communicator& communicator, Batch batch,
             RootedTransferFactory factory)
      : plane_(plane),
        rank_(static_cast<std::size_t>(communicator.rank)),
        size_(static_cast<std::size_t>(communicator.size)),
        batch_(std::move(batch)),
        factory_(std::move(factory)),
        ticket_(plane.take_ticket()) {}

  ~RootedTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (transfer_ == nullptr) start_first();
    const Progress progress = transfer_->advance();
    if (progress == Progress::kFailed) return fail(transfer_->status());
    if (progress != Progress::kDone) return progress;
    if (counts_wanted_) {
      counts_wanted_ = false;
      if (Status status = start_gathering(); !status.is_ok()) return fail(std::move(status));
      return Progress::kMoved;
    }
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }

 private:
  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }

  void start_first() {
    if (const auto* broadcast = std::get_if<Broadcast>(&batch_.operation)) {
      transfer_ = factory_(plan_broadcast(static_cast<std::size_t>(broadcast->root)));
      return;
    }
    counts_wanted_ = true;
    transfer_ = factory_(plan_counts());
  }

  RootedPlan plan_broadcast(std::size_t root) const {
    RootedPlan plan{.bytes = std::vector<std::size_t>(size_),
                    .input = {},
                    .outputs = std::vector<ByteStream>(size_),
                    .own_in_place = true};
    const std::size_t element = size_of(batch_.dtype);
    for (const Segment& segment : batch_.segments) {
      const std::size_t bytes = segment.count * element;
      plan.bytes[root] += bytes;
      // Whoever is not the root has no input to speak of.
      if (rank_ == root) plan.input.append(segment.input, bytes);
      if (segment.input != segment.output) plan.own_in_place = false;
      plan.outputs[root].append(static_cast<std::byte*>(segment.output), bytes);
    }
    return plan;
  }

  /// The counts of all ranks, as an allgather of equal parts: rank after rank in counts_.
  RootedPlan plan_counts() {
    const std::size_t segments = batch_.segments.size();
    RootedPlan plan{.bytes = std::vector<std::size_t>(size_, segments * sizeof(std::size_t)),
                    .input = {},
                    .outputs = std::vector<ByteStream>(size_)};
    my_counts_.resize(segments);
    for (std::size_t i = 0; i < segments; ++i) my_counts_[i] = batch_.segments[i].count;
    counts_.resize(segments * size_);
    plan.input.append(my_counts_.data(), segments * sizeof(std::size_t));
    for (std::size_t rank = 0; rank < size_; ++rank) {
      plan.outputs[rank].append(reinterpret_cast<std::byte*>(counts_.data() + rank * segments),
                                segments * sizeof(std::size_t));
    }
    return plan;
  }

  Status start_gathering() {
    RootedPlan plan{.bytes = std::vector<std::size_t>(size_),
                    .input = {},
                    .outputs = std::vector<ByteStream>(size_)};
    const std::size_t element = size_of(batch_.dtype);
    const std::size_t segments = batch_.segments.size();
    std::vector<std::size_t> counts(size_);
    for (std::size_t i = 0; i < segments; ++i) {
      for (std::size_t rank = 0; rank < size_; ++rank) counts[rank] = counts_[rank * segments + i];
      HVD_TRY_ASSIGN(void* memory, batch_.allocate(i, counts));
      auto* place = static_cast<std::byte*>(memory);
      plan.input.append(batch_.segments[i].input, batch_.segments[i].count * element);
      for (std::size_t rank = 0; rank < size_; ++rank) {
        const std::size_t bytes = counts[rank] * element;
        plan.bytes[rank] += bytes;
        plan.outputs[rank].append(place, bytes);
        if (bytes > 0) place += bytes;
      }
    }
    transfer_ = factory_(std::move(plan));
    return Status::ok();
  }

  NodePlane& plane_;
  std::size_t rank_;
  std::size_t size_;
  Batch batch_;
  RootedTransferFactory factory_;
  std::uint64_t ticket_;
  std::unique_ptr<RootedTransfer> transfer_;
  bool counts_wanted_ = false;
  bool finished_ = false;
  std::vector<std::size_t> my_counts_;
  std::vector<std::size_t> counts_;  // [rank][segment]
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_rooted_task(NodePlane& plane, const Communicator& communicator,
                                       Batch batch, RootedTransferFactory factory) {
  return std::make_unique<RootedTask>(plane, communicator, std::move(batch), std::move(factory));
}

}  // namespace hvd
