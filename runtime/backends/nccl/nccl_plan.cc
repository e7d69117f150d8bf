// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_plan.h"

#include "backends/nccl/nccl_adasum.h"
#include "backends/nccl/nccl_reductions.h"
#include "base/check.h"
#include "collective/reduce.h"

namespace hvd {
namespace {

using Where = NcclPlace::Where;

NcclStep move(NcclVerb verb, std::size_t bytes, int peer) {
  return {.verb = verb,
          .dtype = DataType::kUint8,
          .fold = NcclFold::kSum,
          .count = bytes,
          .peer = peer,
          .from = {},
          .to = {}};
}

NcclPlan plan_broadcast(const Batch& batch, const Communicator& communicator, int root) {
  NcclPlan plan;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const std::size_t bytes = batch.segments[i].count * size_of(batch.dtype);
    if (bytes == 0) continue;
    NcclStep step = move(NcclVerb::kBroadcast, bytes, root);
    step.to = {Where::kOutput, i, 0};
    step.from = communicator.rank == root ? NcclPlace{Where::kInput, i, 0} : step.to;
    plan.steps.push_back(step);
  }
  return plan;
}

NcclPlan plan_allgather(const MovingCounts& counts, std::size_t element, std::size_t mine) {
  NcclPlan plan;
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    bool equal = true;
    for (std::size_t rank = 1; rank < counts.size(); ++rank) {
      equal = equal && counts.sent(rank, i) == counts.sent(0, i);
    }
    std::size_t offset = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      const std::size_t bytes = counts.sent(rank, i) * element;
      if (bytes == 0) continue;
      NcclStep step =
          move(equal ? NcclVerb::kAllGather : NcclVerb::kBroadcast, bytes, static_cast<int>(rank));
      step.to = {Where::kOutput, i, offset};
      step.from = equal || rank == mine ? NcclPlace{Where::kInput, i, 0} : step.to;
      plan.steps.push_back(step);
      if (equal) break;
      offset += bytes;
    }
  }
  return plan;
}

/// Alltoall, gather and scatter.
NcclPlan plan_exchange(const MovingCounts& counts, std::size_t element, std::size_t mine) {
  NcclPlan plan;
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    std::size_t offset = 0;
    for (std::size_t peer = 0; peer < counts.size(); ++peer) {
      const std::size_t out = counts.at(mine, i, peer) * element;
      const std::size_t in = counts.at(peer, i, mine) * element;
      if (out > 0) {
        NcclStep step = move(NcclVerb::kSend, out, static_cast<int>(peer));
        step.from = {Where::kInput, i, counts.sent_before(mine, i, peer) * element};
        plan.steps.push_back(step);
      }
      if (in > 0) {
        NcclStep step = move(NcclVerb::kRecv, in, static_cast<int>(peer));
        step.to = {Where::kOutput, i, offset};
        plan.steps.push_back(step);
      }
      offset += in;
    }
  }
  return plan;
}

}  // namespace

Status check_nccl_operation(const Operation& operation, DataType dtype) {
  if (!is_one_of<Allreduce, Allgather, Broadcast, Reducescatter, Alltoall, Reduce, Gather, Scatter>(
          operation)) {
    return error(Code::kUnsupported, "NCCL has no {}", kind_name(operation));
  }
  HVD_TRY(check_reduction(operation, dtype));
  const auto reduction = reduction_of(operation);
  if (!reduction) return Status::ok();
  const auto lacks = [&](std::string_view what) {
    return error(Code::kUnsupported, "NCCL has no {} of {}{}", describe(operation), name_of(dtype),
                 what);
  };
  switch (reduction->op) {
    case ReduceOp::kBitXor:
      return lacks("");
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      if (dtype != DataType::kBool) return lacks("");
      break;
    case ReduceOp::kProduct:
      if (dtype == DataType::kComplex64 || dtype == DataType::kComplex128) return lacks("");
      break;
    default:
      break;
  }
  if (dtype == DataType::kInt16 || dtype == DataType::kUint16) {
    return lacks(": it knows integers of 8, 32 and 64 bits");
  }
  return Status::ok();
}

bool needs_counts(const Operation& operation) { return kind_of(operation).has_free_rows; }

NcclPlan plan_nccl(const Batch& batch, const Communicator& communicator, const MovingCounts* counts,
                   const NcclPlanOptions& options) {
  if (const auto reduction = reduction_of(batch.operation)) {
    if (reduction->op == ReduceOp::kAdasum) return plan_nccl_adasum(batch, communicator, options);
    return plan_nccl_reduction(batch, communicator, options);
  }
  if (const auto* broadcast = std::get_if<Broadcast>(&batch.operation)) {
    return plan_broadcast(batch, communicator, broadcast->root);
  }
  HVD_CHECK(counts != nullptr);
  const auto mine = static_cast<std::size_t>(communicator.rank);
  const std::size_t element = size_of(batch.dtype);
  if (counts->is_shared()) return plan_allgather(*counts, element, mine);
  return plan_exchange(*counts, element, mine);
}

}  // namespace hvd
