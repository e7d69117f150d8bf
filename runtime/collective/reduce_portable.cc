// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_kernels.h"

namespace hvd {

ReduceKernelFinder best_kernel_finder() { return &baseline_kernel; }

}  // namespace hvd
