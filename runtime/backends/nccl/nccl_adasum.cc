// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_adasum.h"

#include "collective/adasum.h"

namespace hvd {
namespace {

NcclStep transfer(NcclVerb verb, std::size_t bytes, int peer, std::size_t offset) {
  const NcclPlace place{NcclPlace::Where::kBucket, 0, offset};
  return {.verb = verb,
          .dtype = DataType::kUint8,
          .fold = NcclFold::kSum,
          .count = bytes,
          .peer = peer,
          .from = place,
          .to = place};
}

NcclAdasum::Round plan_round(const AdasumSchedule::Step& step, int rank, std::size_t bytes,
                             std::size_t theirs) {
  NcclAdasum::Round round;
  if (bytes == 0) return round;
  if (step.sends) round.steps.push_back(transfer(NcclVerb::kSend, bytes, step.peer, 0));
  if (step.receives) {
    // What is not combined is the result, in place of this rank's gradients.
    const std::size_t to = step.combines ? theirs : 0;
    round.steps.push_back(transfer(NcclVerb::kRecv, bytes, step.peer, to));
  }
  round.combines = step.combines;
  round.is_lower = rank < step.peer;
  return round;
}

}  // namespace

NcclPlan plan_nccl_adasum(const Batch& batch, const Communicator& communicator) {
  const auto& allreduce = std::get<Allreduce>(batch.operation);
  NcclPlan plan;
  NcclAdasum& adasum = plan.adasum;
  // Half types travel, and are combined, in float32.
  adasum.dtype = batch.dtype == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const std::size_t count = batch.segments[i].count;
    if (count == 0) continue;
    plan.packed.push_back({i, bytes, count});
    adasum.pairs.push_back({bytes, count});
    bytes = next_slot(bytes + count * size_of(adasum.dtype));
  }
  plan.pack = {batch.dtype, adasum.dtype, allreduce.prescale};
  plan.unpack = {batch.dtype, adasum.dtype, allreduce.postscale};
  plan.unpacked = plan.packed;
  adasum.theirs = bytes;
  adasum.scratch = 2 * bytes;
  plan.bucket_bytes = adasum.scratch + adasum_scratch_bytes(adasum.pairs, adasum.dtype);
  const AdasumSchedule schedule(communicator.size);
  for (int level = 0; level < schedule.levels(); ++level) {
    adasum.rounds.push_back(plan_round(schedule.step(level, communicator.rank), communicator.rank,
                                       bytes, adasum.theirs));
  }
  if (!batch.is_neutral) return plan;
  // A gradient of length zero takes nothing from the others.
  plan.packed.clear();
  plan.unpacked.clear();
  plan.filled.push_back({0, 0, bytes / size_of(adasum.dtype)});
  plan.fill_dtype = adasum.dtype;
  return plan;
}

}  // namespace hvd
