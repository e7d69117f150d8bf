// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_backend.h"

#include <utility>

#include "backends/lanes/lane_exchange.h"
#include "backends/lanes/lane_reduce_plan.h"
#include "backends/lanes/lane_set.h"
#include "backends/lanes/lane_transfer.h"
#include "backends/node/adasum_task.h"
#include "backends/node/exchange.h"
#include "backends/node/moving_task.h"
#include "backends/node/rooted.h"
#include "base/log.h"
#include "collective/select_allreduce.h"

namespace hvd {
namespace {

class LaneBackend : public Backend {
 public:
  LaneBackend(std::string_view name, const BackendContext& context,
              std::unique_ptr<LaneLinks> links, std::string carrier)
      : name_(name),
        carrier_(std::move(carrier)),
        communicator_(context.communicator),
        plane_(context.memory, context.communicator.local_rank, context.communicator.local_size(),
               context.doorbell),
        lanes_(context, std::move(links)) {}

  std::string_view name() const override { return name_; }

  Status supports(const Operation& operation, DataType dtype, Device device) const override {
    if (device.kind != DeviceKind::kCpu) {
      return error(Code::kUnsupported, "{} reaches the memory of the CPU only", name_);
    }
    if (std::holds_alternative<Join>(operation)) {
      return error(Code::kUnsupported, "{} has no {}", name_, kind_name(operation));
    }
    return check_reduction(operation, dtype);
  }

  std::string reach() const override {
    return format_text(
        "{} nodes, {} of each node's ranks connected to the other nodes by {}; float32 allreduce "
        "between them: {}",
        communicator_.node_count(), lanes_.lanes(), carrier_,
        describe_allreduce_choices({.nodes = communicator_.node_count(),
                                    .lanes = lanes_.lanes(),
                                    .round_bytes = NodePlane::kSlotBytes}));
  }

  Result<std::unique_ptr<Task>> start(Batch batch) override {
    if (plane_.is_abandoned()) {
      return error(Code::kAborted, "{}: an earlier batch of this process set was given up", name_);
    }
    const ExchangeFactory exchange = [this](ExchangePlan plan) {
      return start_lane_exchange(plane_, lanes_, std::move(plan));
    };
    if (const auto allreduce = reduction_of(batch.operation)) {
      if (allreduce->op == ReduceOp::kAdasum) {
        return make_adasum_task(plane_, communicator_, std::move(batch), exchange);
      }
      const auto reduction = Reduction::of(*allreduce, batch.dtype, communicator_.size);
      const NodeSelection selection = select_allreduce(node_work_of(batch, reduction, lanes_));
      tell(selection);
      HVD_TRY_ASSIGN(auto plan,
                     plan_lane_reduce(lanes_, std::move(batch), reduction, selection.algorithm));
      return make_lane_reduce_task(plane_, lanes_, std::move(plan));
    }
    const RootedTransferFactory rooted = [this](RootedPlan plan) {
      return start_lane_transfer(plane_, lanes_, std::move(plan));
    };
    if (std::holds_alternative<Broadcast>(batch.operation)) {
      return make_broadcast_task(plane_, communicator_, std::move(batch), rooted);
    }
    return make_moving_task(plane_, communicator_, std::move(batch), {rooted, exchange});
  }

  bool reproducible() const override { return true; }
  bool needs_polling() const override { return lanes_.needs_polling(); }
  bool keeps_memory() const override { return lanes_.keeps_memory(); }

 private:
  /// Says why an algorithm is used, when it is used for the first time to this end.
  void tell(const NodeSelection& selection) {
    const auto goal = static_cast<unsigned>(selection.work.goal);
    const auto algorithm = static_cast<unsigned>(selection.algorithm);
    const std::uint64_t bit = std::uint64_t{1} << (8 * goal + algorithm);
    if ((told_ & bit) != 0) return;
    told_ |= bit;
    log(LogLevel::kInfo, "select", "{}", selection.reason());
  }

  std::string_view name_;
  std::string carrier_;
  const Communicator& communicator_;
  NodePlane plane_;
  LaneSet lanes_;
  std::uint64_t told_ = 0;  ///< A bit for each algorithm and goal.
};

}  // namespace

Result<std::unique_ptr<Backend>> make_lane_backend(std::string_view name,
                                                   const BackendContext& context,
                                                   std::unique_ptr<LaneLinks> links,
                                                   std::string carrier) {
  const Communicator& communicator = context.communicator;
  const std::size_t wanted = NodePlane::memory_bytes(communicator.local_size());
  if (context.memory.size() < wanted) {
    return error(Code::kInternal, "rank {}: {} needs {} bytes of shared memory and got {}",
                 communicator.rank, name, wanted, context.memory.size());
  }
  return std::unique_ptr<Backend>(
      std::make_unique<LaneBackend>(name, context, std::move(links), std::move(carrier)));
}

}  // namespace hvd
