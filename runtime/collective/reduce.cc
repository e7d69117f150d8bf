// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce.h"

#include "base/check.h"
#include "collective/reduce_kernels.h"

namespace hvd {

Reduction Reduction::of(const Allreduce& allreduce, DataType dtype, int size) {
  const bool average = allreduce.op == ReduceOp::kAverage;
  return {.dtype = dtype,
          .op = average ? ReduceOp::kSum : allreduce.op,
          .prescale = allreduce.prescale,
          .postscale = allreduce.postscale,
          .divisor = average ? size : 1};
}

std::size_t Reduction::partial_bytes() const {
  const bool half = dtype == DataType::kFloat16 || dtype == DataType::kBfloat16;
  return half ? sizeof(float) : size_of(dtype);
}

Status check_reducible(const Allreduce& allreduce, DataType dtype) {
  if (allreduce.op == ReduceOp::kAdasum) {
    return error(Code::kUnsupported,
                 "allreduce(adasum) is no element-wise reduction; use sum or average");
  }
  if (dtype > DataType::kUint64) {
    return error(Code::kUnsupported,
                 "{} of {}: this type is moved but not reduced; convert it to float32 first",
                 describe(allreduce), name_of(dtype));
  }
  if (allreduce.op > ReduceOp::kProduct) {
    return error(Code::kUnsupported, "{}: not part of this version; use min or max of bool",
                 describe(allreduce));
  }
  if (allreduce.wire != Wire::kSame) {
    return error(Code::kUnsupported, "{}: not part of this version; convert before and after",
                 describe(allreduce));
  }
  const bool scaled = allreduce.prescale != 1.0 || allreduce.postscale != 1.0;
  if (dtype == DataType::kBool && (scaled || allreduce.op == ReduceOp::kAverage)) {
    return error(Code::kUnsupported,
                 "{} of bool has no meaning; use sum or max for 'any', product or min for 'all'",
                 describe(allreduce));
  }
  return Status::ok();
}

void reduce_into(const Reduction& reduction, ReduceStage stage, void* destination,
                 std::span<const void* const> sources, std::size_t count) {
  static const ReduceKernelFinder find = best_kernel_finder();
  const bool first = stage == ReduceStage::kWhole || stage == ReduceStage::kPartial;
  const bool last = stage == ReduceStage::kWhole || stage == ReduceStage::kFinish;
  const ReduceKernel kernel = find(reduction.dtype, reduction.op, stage);
  HVD_CHECK(kernel != nullptr && !sources.empty());
  kernel(destination, sources.data(), sources.size(), count,
         {.prescale = first ? reduction.prescale : 1.0,
          .postscale = last ? reduction.postscale : 1.0,
          .divisor = last ? reduction.divisor : 1});
}

}  // namespace hvd
