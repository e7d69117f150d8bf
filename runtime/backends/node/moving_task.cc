// SPDX-License-Identifier: Apache-2.0
#include "backends/node/moving_task.h"

#include <cstring>
#include <utility>

#include "base/copy_bytes.h"
#include "collective/moving_counts.h"

namespace hvd {
namespace {

class MovingTask : public Task {
 public:
  MovingTask(NodePlane& plane, const Communicator& communicator, Batch batch,
             MovingTransfers transfers)
      : plane_(plane),
        rank_(static_cast<std::size_t>(communicator.rank)),
        one_node_(communicator.node_count() == 1),
        batch_(std::move(batch)),
        element_(size_of(batch_.dtype)),
        transfers_(std::move(transfers)),
        ticket_(plane.take_ticket()),
        counts_(batch_, communicator) {}

  ~MovingTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (transfer_ == nullptr) {
      if (tells_counts_small()) return advance_small();
      transfer_ = transfers_.rooted(plan_counts());
    }
    const Progress progress = transfer_->advance();
    if (progress == Progress::kFailed) return fail(transfer_->status());
    if (progress != Progress::kDone) return progress;
    if (outputs_.empty()) {
      if (Status status = start_moving(); !status.is_ok()) return fail(std::move(status));
      return Progress::kMoved;
    }
    return done();
  }
  const Status& status() const override { return status_; }

 private:
  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }
  Progress done() {
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }

  // ---- counts, and small rows, in the small slots of a node

  std::size_t row_bytes() const { return counts_.row_length() * sizeof(std::size_t); }
  bool tells_counts_small() const { return one_node_ && row_bytes() <= NodePlane::kSmallBytes; }
  std::size_t sent_bytes(std::size_t source) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < counts_.segments(); ++i) bytes += counts_.sent(source, i);
    return bytes * element_;
  }
  bool fits_small(std::size_t source) const {
    return sent_bytes(source) <= NodePlane::kSmallBytes - row_bytes();
  }

  Progress advance_small() {
    const bool publishing = small_ == 0;
    if (publishing) publish_small();
    if (!plane_.all_have_small(small_)) {
      return publishing ? Progress::kMoved : Progress::kBlocked;
    }
    bool all_fit = true;
    for (std::size_t source = 0; source < counts_.size(); ++source) {
      std::memcpy(counts_.row(source), plane_.small(static_cast<int>(source), small_), row_bytes());
      all_fit = all_fit && fits_small(source);
    }
    if (!all_fit) {
      if (Status status = start_moving(); !status.is_ok()) return fail(std::move(status));
      return Progress::kMoved;
    }
    if (Status status = allocate(); !status.is_ok()) return fail(std::move(status));
    for (std::size_t source = 0; source < counts_.size(); ++source) take_small(source);
    return done();
  }

  void publish_small() {
    small_ = plane_.next_small++;
    std::byte* place = plane_.small(plane_.local_rank(), small_);
    std::memcpy(place, counts_.row(rank_), row_bytes());
    place += row_bytes();
    for (std::size_t i = 0; i < counts_.segments() && fits_small(rank_); ++i) {
      const std::size_t bytes = counts_.sent(rank_, i) * element_;
      if (bytes > 0) copy_bytes(place, batch_.segments[i].input, bytes);
      place += bytes;
    }
    plane_.publish_small(small_);
  }

  void take_small(std::size_t source) {
    const std::byte* place = plane_.small(static_cast<int>(source), small_) + row_bytes();
    std::size_t offset = 0;
    for (std::size_t i = 0; i < counts_.segments(); ++i) {
      const std::size_t bytes = counts_.at(source, i, rank_) * element_;
      const std::size_t before = counts_.sent_before(source, i, rank_) * element_;
      outputs_[source].copy_from(place + before, offset, bytes);
      offset += bytes;
      place += counts_.sent(source, i) * element_;
    }
  }

  // ---- everything else

  /// The counts of all ranks, as an allgather of equal parts.
  RootedPlan plan_counts() {
    RootedPlan plan{.bytes = std::vector<std::size_t>(counts_.size(), row_bytes()),
                    .input = {},
                    .outputs = std::vector<ByteStream>(counts_.size()),
                    .own_in_place = true};
    plan.input.append(counts_.row(rank_), row_bytes());
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
      plan.outputs[rank].append(reinterpret_cast<std::byte*>(counts_.row(rank)), row_bytes());
    }
    return plan;
  }

  /// Memory for the results, and which part of it each rank fills.
  Status allocate() {
    outputs_.resize(counts_.size());
    std::vector<std::size_t> from(counts_.size());
    for (std::size_t i = 0; i < counts_.segments(); ++i) {
      for (std::size_t source = 0; source < from.size(); ++source) {
        from[source] = counts_.at(source, i, rank_);
      }
      HVD_TRY_ASSIGN(void* memory, batch_.allocate(i, from));
      auto* place = static_cast<std::byte*>(memory);
      for (std::size_t source = 0; source < from.size(); ++source) {
        const std::size_t bytes = from[source] * element_;
        outputs_[source].append(place, bytes);
        if (bytes > 0) place += bytes;
      }
    }
    write_past_cache_if_large(outputs_);
    return Status::ok();
  }

  Status start_moving() {
    HVD_TRY(allocate());
    if (counts_.is_shared()) {
      transfer_ = transfers_.rooted(plan_shared());
      return Status::ok();
    }
    HVD_TRY_ASSIGN(transfer_, transfers_.exchange(plan_exchange()));
    return Status::ok();
  }

  RootedPlan plan_shared() const {
    RootedPlan plan{
        .bytes = std::vector<std::size_t>(counts_.size()), .input = {}, .outputs = outputs_};
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) plan.bytes[rank] = sent_bytes(rank);
    for (const Segment& segment : batch_.segments) {
      plan.input.append(segment.input, segment.count * element_);
    }
    return plan;
  }

  ExchangePlan plan_exchange() const {
    const std::size_t size = counts_.size();
    ExchangePlan plan{.size = size,
                      .bytes = std::vector<std::size_t>(size * size),
                      .inputs = std::vector<ByteStream>(size),
                      .outputs = outputs_};
    for (std::size_t i = 0; i < counts_.segments(); ++i) {
      const auto* place = static_cast<const std::byte*>(batch_.segments[i].input);
      for (std::size_t to = 0; to < size; ++to) {
        const std::size_t bytes = counts_.at(rank_, i, to) * element_;
        if (bytes == 0) continue;
        plan.inputs[to].append(place, bytes);
        place += bytes;
      }
      for (std::size_t from = 0; from < size; ++from) {
        for (std::size_t to = 0; to < size; ++to) {
          plan.bytes[from * size + to] += counts_.at(from, i, to) * element_;
        }
      }
    }
    return plan;
  }

  NodePlane& plane_;
  std::size_t rank_;
  bool one_node_;
  Batch batch_;
  std::size_t element_;
  MovingTransfers transfers_;
  std::uint64_t ticket_;
  MovingCounts counts_;
  std::uint64_t small_ = 0;          // my number of the small slots
  std::vector<ByteStream> outputs_;  // by source; empty until the counts are known
  std::unique_ptr<Transfer> transfer_;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_moving_task(NodePlane& plane, const Communicator& communicator,
                                       Batch batch, MovingTransfers transfers) {
  return std::make_unique<MovingTask>(plane, communicator, std::move(batch), std::move(transfers));
}

}  // namespace hvd
