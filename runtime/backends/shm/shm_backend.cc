// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/shm_backend.h"

#include <optional>

#include "backends/node/node_backend.h"
#include "backends/node/reduce_batch.h"
#include "backends/node/reduce_stream.h"
#include "backends/shm/scatter_reduce_task.h"
#include "backends/shm/small_task.h"
#include "backends/shm/zero_copy.h"

namespace hvd {
namespace {

/// A large allreduce: without slots where the tensors of all ranks allow it, else the three stages
/// of a stream, the furthest first, so that slots are free again as soon as can be.
class StreamTask : public Task {
 public:
  StreamTask(NodePlane& plane, const ArenaView& arena, Batch batch, const Reduction& reduction)
      : plane_(plane),
        batch_(std::move(batch)),
        stream_(plane, batch_, reduction, plane.local_size()),
        ticket_(plane.take_ticket()) {
    if (ZeroCopy::is_possible(arena, batch_)) {
      zero_copy_.emplace(plane, arena, batch_, reduction);
    }
  }

  ~StreamTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (!begun_ && !begin()) return Progress::kBlocked;
    if (zero_copy_) {
      if (!agreed_) {
        const auto all = plane_.all_without_slots(number_);
        if (!all) return Progress::kBlocked;
        settle_for(*all);
      }
      if (zero_copy_) return finish_with(zero_copy_->advance());
    }
    if (!stream_.try_copy_out() && !stream_.try_reduce() && !stream_.try_copy_in()) {
      return Progress::kBlocked;
    }
    return finish_with(stream_.is_done() ? Progress::kDone : Progress::kMoved);
  }
  const Status& status() const override { return status_; }

 private:
  /// False while the slot that tells the others of my tensors is not free.
  bool begin() {
    if (zero_copy_) {
      if (!plane_.slot_is_free(plane_.next_round)) return false;
      zero_copy_->announce(plane_.next_round);
    }
    number_ = plane_.next_stream++;
    // From here on a rank that hears of all modes before us may write into our tensors.
    plane_.is_written_by_others = zero_copy_.has_value();
    plane_.publish_mode(number_, zero_copy_.has_value());
    if (!zero_copy_) stream_.begin();
    begun_ = true;
    return true;
  }

  void settle_for(bool without_slots) {
    agreed_ = true;
    if (without_slots) {
      ++plane_.next_round;
    } else {
      plane_.is_written_by_others = false;
      zero_copy_.reset();
      stream_.begin();
    }
  }

  Progress finish_with(Progress progress) {
    if (progress != Progress::kDone) return progress;
    finished_ = true;
    plane_.is_written_by_others = false;
    plane_.finish(ticket_);
    return Progress::kDone;
  }

  NodePlane& plane_;
  Batch batch_;
  ReduceStream stream_;
  std::optional<ZeroCopy> zero_copy_;
  std::uint64_t ticket_;
  std::uint64_t number_ = 0;
  bool begun_ = false;
  bool agreed_ = false;
  bool finished_ = false;
  Status status_;
};

class ShmBackend final : public NodeBackend {
 public:
  explicit ShmBackend(const BackendContext& context)
      : NodeBackend(kShmBackend.name, context), arena_(context.arena) {}

  std::string reach() const override {
    if (communicator().size == 1) return "there is one rank, so nothing has to move";
    return format_text("all {} ranks share the memory of one node", communicator().size);
  }

  bool settle(const std::function<bool(int rank)>& is_gone, Deadline deadline) override {
    plane().stop();
    if (!plane().is_written_by_others) return true;
    const auto& ranks = communicator().nodes[static_cast<std::size_t>(communicator().node)];
    return plane().wait_until_stopped(
        [&](int local_rank) { return is_gone(ranks[static_cast<std::size_t>(local_rank)]); },
        deadline);
  }

 private:
  Result<std::unique_ptr<Task>> start_reduction(Batch batch, const Allreduce& allreduce) override {
    const bool scatters = std::holds_alternative<Reducescatter>(batch.operation);
    const auto reduction = Reduction::of(allreduce, batch.dtype, communicator().size);
    if (!std::holds_alternative<Allreduce>(batch.operation)) {
      HVD_TRY_ASSIGN(batch, as_allreduce(std::move(batch), communicator()));
    }
    if (batch.total_count() * reduction.element_bytes() <= NodePlane::kSmallBytes) {
      return make_small_task(plane(), std::move(batch), reduction);
    }
    if (scatters && communicator().size > 1) {
      return make_scatter_reduce_task(plane(), std::move(batch), reduction);
    }
    return std::unique_ptr<Task>(
        std::make_unique<StreamTask>(plane(), arena_, std::move(batch), reduction));
  }
  std::unique_ptr<Transfer> start_transfer(RootedPlan plan) override {
    return start_node_transfer(plane(), std::move(plan));
  }
  Result<std::unique_ptr<Transfer>> start_exchange(ExchangePlan plan) override {
    return start_node_exchange(plane(), std::move(plan));
  }

  ArenaView arena_;
};

Result<std::unique_ptr<Backend>> create_shm(const BackendContext& context) {
  const Communicator& communicator = context.communicator;
  if (communicator.node_count() != 1) {
    return error(Code::kUnsupported, "shm serves one node, and the ranks live on {}",
                 communicator.node_count());
  }
  HVD_TRY(check_node_memory(kShmBackend.name, context));
  return std::unique_ptr<Backend>(std::make_unique<ShmBackend>(context));
}

}  // namespace

const BackendEntry kShmBackend = {
    .name = "shm", .memory_bytes = &NodePlane::memory_bytes, .create = &create_shm};

}  // namespace hvd
