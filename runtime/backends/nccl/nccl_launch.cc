// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_launch.h"

#include "backends/nccl/nccl_adasum.h"
#include "device/kernels/kernel_launch.h"

namespace hvd {
namespace {

bool has_integers(const PackFormat& format) {
  return !is_floating(format.tensor) && format.tensor != DataType::kComplex64 &&
         format.tensor != DataType::kComplex128;
}

}  // namespace

std::vector<PackSegment> NcclLaunch::segments_of(const std::vector<NcclPiece>& pieces,
                                                 Side side) const {
  std::vector<PackSegment> segments;
  segments.reserve(pieces.size());
  for (const NcclPiece& piece : pieces) {
    void* tensor = nullptr;
    if (side == Side::kInputs) {
      tensor = const_cast<void*>(batch_.segments[piece.segment].input);  // read, never written
    } else if (side == Side::kOutputs) {
      tensor = outputs_[piece.segment];
    } else {
      NcclBucket& memory = side == Side::kBucket ? session_.bucket() : session_.spare();
      tensor = memory.memory() + piece.offset;
    }
    segments.push_back({tensor, piece.offset, piece.count});
  }
  return segments;
}

std::byte* NcclLaunch::address(const NcclPlace& place) const {
  switch (place.where) {
    case NcclPlace::Where::kBucket:
      return session_.bucket().memory() + place.offset;
    case NcclPlace::Where::kSpare:
      return session_.spare().memory() + place.offset;
    case NcclPlace::Where::kOutput:
      return static_cast<std::byte*>(outputs_[place.segment]) + place.offset;
    case NcclPlace::Where::kInput:
      break;
  }
  const void* const input = batch_.segments[place.segment].input;
  return static_cast<std::byte*>(const_cast<void*>(input)) + place.offset;
}

Status NcclLaunch::wait_for_inputs() const {
  for (const GpuEventPtr& ready : batch_.gpu.ready) {
    HVD_TRY(session_.gpu().make_wait(session_.stream(), *ready));
  }
  return Status::ok();
}

Status NcclLaunch::pack() const {
  Gpu& gpu = session_.gpu();
  const StreamHandle stream = session_.stream();
  std::byte* const bucket = session_.bucket().memory();
  HVD_TRY(enqueue(gpu, plan_pack(segments_of(plan_.packed, Side::kInputs), bucket, plan_.pack),
                  stream));
  if (plan_.integer_prescale != 1.0) {
    HVD_TRY(enqueue(gpu,
                    plan_integer_scale(segments_of(plan_.packed, Side::kBucket), plan_.pack.tensor,
                                       plan_.integer_prescale, 1),
                    stream));
  }
  std::vector<PackSegment> filled = segments_of(plan_.filled, Side::kBucket);
  const std::vector<PackSegment> spare = segments_of(plan_.filled_spare, Side::kSpare);
  filled.insert(filled.end(), spare.begin(), spare.end());
  return enqueue(gpu, plan_fill_identity(filled, plan_.fill_dtype, plan_.fill_op), stream);
}

NcclGraphShape NcclLaunch::shape() const {
  NcclGraphShape shape{.operation = batch_.operation,
                       .dtype = batch_.dtype,
                       .is_neutral = batch_.gpu.is_neutral,
                       .bucket = session_.bucket().memory(),
                       .spare = session_.spare().memory()};
  shape.tensors.reserve(batch_.segments.size());
  for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
    const Segment& segment = batch_.segments[i];
    shape.tensors.push_back({segment.input, outputs_[i], segment.count});
  }
  return shape;
}

Status NcclLaunch::wait_for_turn() const {
  if (session_.nccl_keeps_order()) return Status::ok();
  for (const GpuEventPtr& end : batch_.gpu.turn.before()) {
    HVD_TRY(session_.gpu().make_wait(session_.stream(), *end));
  }
  return Status::ok();
}

Status NcclLaunch::communicate(const std::vector<NcclStep>& steps) const {
  if (steps.empty()) return Status::ok();
  NcclCommunicator& communicator = session_.communicator();
  HVD_TRY(communicator.begin_group());
  Status status;
  for (const NcclStep& step : steps) {
    status = communicator.add(step, {address(step.from), address(step.to)}, plan_.premul,
                              session_.stream());
    if (!status.is_ok()) break;
  }
  // The group is closed in any case: it is the thread's, not the communicator's.
  const Status ended = communicator.end_group();
  return status.is_ok() ? ended : status;
}

Status NcclLaunch::calculate(const NcclAdasum::Round& round) const {
  if (!round.measures && !round.adds && !round.blends) return Status::ok();
  const NcclAdasum& adasum = plan_.adasum;
  Gpu& gpu = session_.gpu();
  const StreamHandle stream = session_.stream();
  std::byte* const bucket = session_.bucket().memory();
  std::byte* const mine = bucket + round.slice.begin;
  std::byte* const theirs = bucket + adasum.theirs;
  const AdasumPlan plan = plan_adasum(pairs_of(adasum, round.slice), adasum.dtype,
                                      {.lower = round.is_lower ? mine : theirs,
                                       .higher = round.is_lower ? theirs : mine,
                                       .result = mine,
                                       .scratch = bucket + adasum.scratch});
  if (round.measures) HVD_TRY(plan.enqueue_measuring(gpu, stream));
  if (round.adds) {
    auto* const both = reinterpret_cast<kernels::Dots*>(bucket + adasum.their_dots);
    HVD_TRY(enqueue(gpu, plan_adding_dots(both, adasum.pairs.size()), stream));
  }
  return round.blends ? plan.enqueue_blending(gpu, stream) : Status::ok();
}

Status NcclLaunch::unpack() const {
  Gpu& gpu = session_.gpu();
  const StreamHandle stream = session_.stream();
  HVD_TRY(enqueue(gpu,
                  plan_unpack(segments_of(plan_.unpacked, Side::kOutputs),
                              session_.bucket().memory(), plan_.unpack),
                  stream));
  const auto scaled = segments_of(plan_.scaled, Side::kOutputs);
  if (has_integers(plan_.pack)) {
    return enqueue(gpu, plan_integer_scale(scaled, plan_.pack.tensor, plan_.scale, plan_.divisor),
                   stream);
  }
  return enqueue(gpu, plan_scale(scaled, plan_.pack.tensor, plan_.scale), stream);
}

}  // namespace hvd
