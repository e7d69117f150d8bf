// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_backend.h"

#include <utility>

#include "backends/lanes/lane_exchange.h"
#include "backends/lanes/lane_reduce_plan.h"
#include "backends/lanes/lane_set.h"
#include "backends/lanes/lane_transfer.h"
#include "backends/node/node_backend.h"
#include "base/log.h"
#include "collective/select_allreduce.h"

namespace hvd {
namespace {

class LaneBackend final : public NodeBackend {
 public:
  LaneBackend(std::string_view name, const BackendContext& context,
              std::unique_ptr<LaneLinks> links, std::string carrier)
      : NodeBackend(name, context),
        carrier_(std::move(carrier)),
        lanes_(context, std::move(links)) {}

  std::string reach() const override {
    return format_text(
        "{} nodes, {} of each node's ranks connected to the other nodes by {}; float32 allreduce "
        "between them: {}",
        communicator().node_count(), lanes_.lanes(), carrier_,
        describe_allreduce_choices({.nodes = communicator().node_count(),
                                    .lanes = lanes_.lanes(),
                                    .round_bytes = NodePlane::kSlotBytes}));
  }

  bool needs_polling() const override { return lanes_.needs_polling(); }
  bool keeps_memory() const override { return lanes_.keeps_memory(); }

 private:
  Result<std::unique_ptr<Task>> start_reduction(Batch batch, const Allreduce& allreduce) override {
    const auto reduction = Reduction::of(allreduce, batch.dtype, communicator().size);
    const NodeSelection selection = select_allreduce(node_work_of(batch, reduction, lanes_));
    tell(selection);
    HVD_TRY_ASSIGN(auto plan,
                   plan_lane_reduce(lanes_, std::move(batch), reduction, selection.algorithm));
    return make_lane_reduce_task(plane(), lanes_, std::move(plan));
  }
  std::unique_ptr<Transfer> start_transfer(RootedPlan plan) override {
    return start_lane_transfer(plane(), lanes_, std::move(plan));
  }
  Result<std::unique_ptr<Transfer>> start_exchange(ExchangePlan plan) override {
    return start_lane_exchange(plane(), lanes_, std::move(plan));
  }

  /// Says why an algorithm is used, when it is used for the first time to this end.
  void tell(const NodeSelection& selection) {
    const auto goal = static_cast<unsigned>(selection.work.goal);
    const auto algorithm = static_cast<unsigned>(selection.algorithm);
    const std::uint64_t bit = std::uint64_t{1} << (8 * goal + algorithm);
    if ((told_ & bit) != 0) return;
    told_ |= bit;
    log(LogLevel::kInfo, "select", "{}", selection.reason());
  }

  std::string carrier_;
  LaneSet lanes_;
  std::uint64_t told_ = 0;  ///< A bit for each algorithm and goal.
};

}  // namespace

Result<std::unique_ptr<Backend>> make_lane_backend(std::string_view name,
                                                   const BackendContext& context,
                                                   std::unique_ptr<LaneLinks> links,
                                                   std::string carrier) {
  HVD_TRY(check_node_memory(name, context));
  return std::unique_ptr<Backend>(
      std::make_unique<LaneBackend>(name, context, std::move(links), std::move(carrier)));
}

}  // namespace hvd
