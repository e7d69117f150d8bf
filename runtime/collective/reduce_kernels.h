// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collective/data_type.h"
#include "collective/operation.h"
#include "collective/reduce.h"

namespace hvd {

/// The factors of one kernel call; 1 where the stage does not scale.
struct ReduceFactors {
  double prescale = 1.0;
  double postscale = 1.0;
  int divisor = 1;
};

using ReduceKernel = void (*)(void* destination, const void* const* sources,
                              std::size_t source_count, std::size_t count,
                              const ReduceFactors& factors);
/// Finds the kernel of a type, operation and stage.
using ReduceKernelFinder = ReduceKernel (*)(DataType dtype, ReduceOp op, ReduceStage stage);

/// The same loops, compiled for any processor of the architecture and for newer ones. All give the
/// same bits.
ReduceKernel baseline_kernel(DataType dtype, ReduceOp op, ReduceStage stage);
ReduceKernel avx2_kernel(DataType dtype, ReduceOp op, ReduceStage stage);

/// The fastest that this processor runs.
ReduceKernelFinder best_kernel_finder();

}  // namespace hvd
