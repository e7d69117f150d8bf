// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum.h"
#include "collective/reduce_kernels.h"
#include "collective/wire_cast.h"

namespace hvd {

ReduceKernelFinder best_kernel_finder() { return &baseline_kernel; }

WireCastFinder best_wire_cast_finder() { return &baseline_wire_casts; }

AdasumKernelFinder best_adasum_finder() { return &baseline_adasum_kernels; }

}  // namespace hvd
