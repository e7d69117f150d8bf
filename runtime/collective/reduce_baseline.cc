// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum_loops.h"
#include "collective/reduce_loops.h"
#include "collective/wire_loops.h"

namespace hvd {

ReduceKernel baseline_kernel(DataType dtype, ReduceOp op, ReduceStage stage) {
  return find_kernel(dtype, op, stage);
}

WireCastKernels baseline_wire_casts(DataType element, DataType wire) {
  return find_wire_casts(element, wire);
}

AdasumKernels baseline_adasum_kernels(bool is_double) { return find_adasum_kernels(is_double); }

}  // namespace hvd
