// SPDX-License-Identifier: Apache-2.0
#include "backends/node/node_backend.h"

#include <utility>

#include "backends/node/adasum_task.h"
#include "backends/node/moving_task.h"
#include "collective/reduce.h"

namespace hvd {

Status check_node_operation(std::string_view backend, const Operation& operation, DataType dtype) {
  if (!is_one_of<Allreduce, Allgather, Broadcast, Reducescatter, Alltoall, Reduce, Gather, Scatter>(
          operation)) {
    return error(Code::kUnsupported, "{} has no {}", backend, kind_name(operation));
  }
  return check_reduction(operation, dtype);
}

NodeBackend::NodeBackend(std::string_view name, const BackendContext& context)
    : name_(name),
      communicator_(context.communicator),
      plane_(context.memory, context.communicator.local_rank, context.communicator.local_size(),
             context.doorbell) {}

Status NodeBackend::supports(const Operation& operation, DataType dtype, Device device) const {
  if (device.kind != DeviceKind::kCpu) {
    return error(Code::kUnsupported, "{} reaches the memory of the CPU only", name_);
  }
  return check_node_operation(name_, operation, dtype);
}

Result<std::unique_ptr<Task>> NodeBackend::start(Batch batch) {
  if (plane_.is_abandoned()) {
    return error(Code::kAborted, "{}: an earlier batch of this process set was given up", name_);
  }
  const ExchangeFactory exchange = [this](ExchangePlan plan) {
    return start_exchange(std::move(plan));
  };
  if (const auto allreduce = reduction_of(batch.operation)) {
    if (allreduce->op == ReduceOp::kAdasum) {
      return make_adasum_task(plane_, communicator_, std::move(batch), exchange);
    }
    return start_reduction(std::move(batch), *allreduce);
  }
  const RootedTransferFactory rooted = [this](RootedPlan plan) {
    return start_transfer(std::move(plan));
  };
  if (std::holds_alternative<Broadcast>(batch.operation)) {
    return make_broadcast_task(plane_, communicator_, std::move(batch), rooted);
  }
  return make_moving_task(plane_, communicator_, std::move(batch), {rooted, exchange});
}

Status check_node_memory(std::string_view name, const BackendContext& context) {
  const Communicator& communicator = context.communicator;
  const std::size_t wanted = NodePlane::memory_bytes(communicator.local_size());
  if (context.memory.size() >= wanted) return Status::ok();
  return error(Code::kInternal, "rank {}: {} needs {} bytes of shared memory and got {}",
               communicator.rank, name, wanted, context.memory.size());
}

}  // namespace hvd
