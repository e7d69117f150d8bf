// SPDX-License-Identifier: Apache-2.0
#include "backends/node/rooted.h"
#include "base/status.h"

namespace hvd {
namespace {

class BroadcastTask : public Task {
 public:
  BroadcastTask(NodePlane& plane, const Communicator& communicator, Batch batch,
                RootedTransferFactory factory)
      : plane_(plane),
        rank_(static_cast<std::size_t>(communicator.rank)),
        size_(static_cast<std::size_t>(communicator.size)),
        batch_(std::move(batch)),
        factory_(std::move(factory)),
        ticket_(plane.take_ticket()) {}

  ~BroadcastTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (transfer_ == nullptr) transfer_ = factory_(plan());
    const Progress progress = transfer_->advance();
    if (progress == Progress::kFailed) status_ = transfer_->status();
    if (progress != Progress::kDone) return progress;
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }

 private:
  RootedPlan plan() const {
    const auto root = static_cast<std::size_t>(root_of(batch_.operation).value_or(0));
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
    write_past_cache_if_large(plan.outputs);
    return plan;
  }

  NodePlane& plane_;
  std::size_t rank_;
  std::size_t size_;
  Batch batch_;
  RootedTransferFactory factory_;
  std::uint64_t ticket_;
  std::unique_ptr<Transfer> transfer_;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_broadcast_task(NodePlane& plane, const Communicator& communicator,
                                          Batch batch, RootedTransferFactory factory) {
  return std::make_unique<BroadcastTask>(plane, communicator, std::move(batch), std::move(factory));
}

}  // namespace hvd
