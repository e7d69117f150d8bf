// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/tcp_backend.h"

#include <algorithm>

#include "backends/shm/rooted.h"
#include "backends/tcp/lane_reduce_task.h"
#include "backends/tcp/lane_set.h"
#include "backends/tcp/lane_transfer.h"

namespace hvd {
namespace {

class TcpBackend : public Backend {
 public:
  explicit TcpBackend(const BackendContext& context)
      : communicator_(context.communicator),
        plane_(context.memory, context.communicator.local_rank, context.communicator.local_size(),
               context.doorbell),
        lanes_(context) {}

  std::string_view name() const override { return kTcpBackend.name; }

  Status supports(const Operation& operation, DataType dtype, Device device) const override {
    if (device.kind != DeviceKind::kCpu) {
      return error(Code::kUnsupported, "tcp reaches the memory of the CPU only");
    }
    if (const auto* allreduce = std::get_if<Allreduce>(&operation)) {
      return check_reducible(*allreduce, dtype);
    }
    return Status::ok();
  }

  std::string reach() const override {
    return format_text("{} nodes, {} of each node's ranks connected to the other nodes",
                       communicator_.node_count(), lanes_.lanes());
  }

  Result<std::unique_ptr<Task>> start(Batch batch) override {
    if (plane_.is_abandoned()) {
      return error(Code::kAborted, "tcp: an earlier batch of this process set was given up");
    }
    if (std::holds_alternative<Barrier>(batch.operation)) {
      // The sum of one byte per rank is known only when all have entered.
      batch.operation = Allreduce{};
      batch.dtype = DataType::kUint8;
      batch.segments = {{.input = &barrier_byte_, .output = &barrier_byte_, .count = 1}};
    }
    if (const auto* allreduce = std::get_if<Allreduce>(&batch.operation)) {
      const auto reduction = Reduction::of(*allreduce, batch.dtype, communicator_.size);
      return make_lane_reduce_task(plane_, lanes_, std::move(batch), reduction);
    }
    return make_rooted_task(plane_, communicator_, std::move(batch), [this](RootedPlan plan) {
      return start_lane_transfer(plane_, lanes_, std::move(plan));
    });
  }

  bool reproducible() const override { return true; }

 private:
  const Communicator& communicator_;
  NodePlane plane_;
  LaneSet lanes_;
  std::uint8_t barrier_byte_ = 0;
};

Result<std::unique_ptr<Backend>> create_tcp(const BackendContext& context) {
  const Communicator& communicator = context.communicator;
  if (communicator.node_count() == 1) {
    return error(Code::kUnsupported, "tcp serves several nodes, and all ranks live on one");
  }
  const auto open = std::count_if(context.lane.begin(), context.lane.end(),
                                  [](const Link* link) { return link != nullptr; });
  const bool is_lane = communicator.local_rank < context.lanes;
  if (context.lanes < 1 || (is_lane && open != communicator.node_count() - 1)) {
    return error(Code::kUnsupported,
                 "tcp: rank {} has {} connections to the {} other nodes of this process set",
                 communicator.rank, open, communicator.node_count() - 1);
  }
  const std::size_t wanted = NodePlane::memory_bytes(communicator.local_size());
  if (context.memory.size() < wanted) {
    return error(Code::kInternal, "rank {}: tcp needs {} bytes of shared memory and got {}",
                 communicator.rank, wanted, context.memory.size());
  }
  return std::unique_ptr<Backend>(std::make_unique<TcpBackend>(context));
}

}  // namespace

const BackendEntry kTcpBackend = {
    .name = "tcp", .memory_bytes = &NodePlane::memory_bytes, .create = &create_tcp};

}  // namespace hvd
