// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum.h"
#include "collective/reduce_kernels.h"
#include "collective/wire_cast.h"

namespace hvd {

// Every processor with AVX2 has F16C, which the same file uses.
ReduceKernelFinder best_kernel_finder() {
  return __builtin_cpu_supports("avx2") ? &avx2_kernel : &baseline_kernel;
}

WireCastFinder best_wire_cast_finder() {
  return __builtin_cpu_supports("avx2") ? &avx2_wire_casts : &baseline_wire_casts;
}

AdasumKernelFinder best_adasum_finder() {
  return __builtin_cpu_supports("avx2") ? &avx2_adasum_kernels : &baseline_adasum_kernels;
}

}  // namespace hvd
