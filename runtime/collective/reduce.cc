// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce.h"

#include "base/check.h"
#include "collective/reduce_kernels.h"
#include "collective/wire_cast.h"

namespace hvd {
namespace {

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
}

bool is_complex(DataType dtype) {
  return dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
}

Status check_adasum(const Allreduce& allreduce, DataType dtype) {
  if (!is_floating(dtype) || is_float8(dtype)) {
    return error(Code::kUnsupported,
                 "{} of {}: it weighs gradients by their lengths; pass float16, bfloat16, float32 "
                 "or float64",
                 describe(allreduce), name_of(dtype));
  }
  if (allreduce.wire != Wire::kSame) {
    return error(Code::kUnsupported,
                 "{}: partial results of Adasum travel in float32; leave the wire type out",
                 describe(allreduce));
  }
  return Status::ok();
}

bool may_travel_as(Wire wire, DataType dtype) {
  const DataType half = wire == Wire::kFloat16 ? DataType::kFloat16 : DataType::kBfloat16;
  return dtype == DataType::kFloat32 || dtype == DataType::kFloat64 || dtype == half;
}

}  // namespace

Reduction Reduction::of(const Allreduce& allreduce, DataType dtype, int size) {
  const bool average = allreduce.op == ReduceOp::kAverage;
  const int divisor = allreduce.divisor > 0 ? allreduce.divisor : size;
  const WireCast cast = WireCast::of(allreduce, dtype);
  return {.dtype = cast.wire,
          .op = average ? ReduceOp::kSum : allreduce.op,
          .prescale = cast.is_cast() ? 1.0 : allreduce.prescale,
          .postscale = allreduce.postscale,
          .divisor = average ? divisor : 1,
          .narrow_partials = cast.is_cast()};
}

std::size_t Reduction::partial_bytes() const {
  const bool half = dtype == DataType::kFloat16 || dtype == DataType::kBfloat16;
  return (half && !narrow_partials) || is_float8(dtype) ? sizeof(float) : size_of(dtype);
}

Status check_reducible(const Allreduce& allreduce, DataType dtype) {
  const ReduceOp op = allreduce.op;
  if (op == ReduceOp::kAdasum) return check_adasum(allreduce, dtype);
  const bool scaled =
      allreduce.prescale != 1.0 || allreduce.postscale != 1.0 || op == ReduceOp::kAverage;
  if (dtype == DataType::kBool && scaled) {
    return error(Code::kUnsupported,
                 "{} of bool has no meaning; use sum or max for 'any', product or min for 'all'",
                 describe(allreduce));
  }
  if (is_bitwise(op) && (is_floating(dtype) || is_complex(dtype))) {
    return error(Code::kUnsupported,
                 "{} of {} has no meaning; bitwise reductions take integers and bool",
                 describe(allreduce), name_of(dtype));
  }
  if (is_bitwise(op) && scaled) {
    return error(Code::kUnsupported, "{}: bits cannot be scaled; leave both scales at 1",
                 describe(allreduce));
  }
  if (allreduce.wire != Wire::kSame && !may_travel_as(allreduce.wire, dtype)) {
    return error(Code::kUnsupported,
                 "{} of {}: only float32 and float64 can travel as another type; send {} as it is",
                 describe(allreduce), name_of(dtype), name_of(dtype));
  }
  if (is_complex(dtype) && (op == ReduceOp::kMin || op == ReduceOp::kMax)) {
    return error(Code::kUnsupported,
                 "{} of {} has no meaning, since complex numbers have no order; use sum, average "
                 "or product, or reduce the real parts",
                 describe(allreduce), name_of(dtype));
  }
  return Status::ok();
}

Status check_reduction(const Operation& operation, DataType dtype) {
  const auto reduction = reduction_of(operation);
  if (!reduction) return Status::ok();
  if (reduction->op == ReduceOp::kAdasum && !std::holds_alternative<Allreduce>(operation)) {
    return error(Code::kUnsupported, "{}: Adasum needs the whole gradient; use allreduce",
                 describe(operation));
  }
  return check_reducible(*reduction, dtype);
}

void reduce_into(const Reduction& reduction, ReduceStage stage, void* destination,
                 std::span<const void* const> sources, std::size_t count) {
  static const ReduceKernelFinder find = best_kernel_finder();
  const bool first = stage == ReduceStage::kWhole || stage == ReduceStage::kPartial;
  const bool last = stage == ReduceStage::kWhole || stage == ReduceStage::kFinish;
  const ReduceKernel kernel =
      find(reduction.dtype, reduction.op, reduction.narrow_partials ? ReduceStage::kWhole : stage);
  HVD_CHECK(kernel != nullptr && !sources.empty());
  kernel(destination, sources.data(), sources.size(), count,
         {.prescale = first ? reduction.prescale : 1.0,
          .postscale = last ? reduction.postscale : 1.0,
          .divisor = last ? reduction.divisor : 1});
}

}  // namespace hvd
