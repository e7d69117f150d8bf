// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_loops.h"

namespace hvd {

ReduceKernel avx2_kernel(DataType dtype, ReduceOp op, ReduceStage stage) {
  return find_kernel(dtype, op, stage);
}

}  // namespace hvd
