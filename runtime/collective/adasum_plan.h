// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/data_type.h"
#include "device/kernels/kernel_arguments.h"
#include "device/kernels/kernel_launch.h"

namespace hvd {

/// Two gradients of a tensor: both lie at this offset, each in its bucket.
struct AdasumPair {
  std::size_t offset = 0;  ///< In bytes; a multiple of the element size.
  std::size_t count = 0;   ///< Elements.
};

/// Where the gradients are. The result may be one of the two others.
struct AdasumBuckets {
  const void* lower = nullptr;  ///< Of the lower rank, on both ranks of a pair.
  const void* higher = nullptr;
  void* result = nullptr;
  void* scratch = nullptr;  ///< adasum_scratch_bytes(), aligned as a float64.
};

/// adasum() on a device, pair by pair: measure, then blend. Between the two, `dots`, at the begin
/// of the scratch memory, may be summed over ranks that each hold a part of every vector.
struct AdasumPlan {
  std::vector<KernelLaunch<kernels::DotArguments>> products;
  std::vector<KernelLaunch<kernels::SumDotsArguments>> sums;
  std::vector<KernelLaunch<kernels::WeighArguments>> weights;
  std::vector<KernelLaunch<kernels::CombineArguments>> combinations;
  kernels::Dots* dots = nullptr;  ///< Of the device: one of each pair, three float64 each.

  Status enqueue_measuring(Gpu& gpu, StreamHandle stream) const;
  Status enqueue_blending(Gpu& gpu, StreamHandle stream) const;
};

/// Of float16, bfloat16, float32 and float64. The same pairs give the same bits, wherever they lie.
std::size_t adasum_scratch_bytes(std::span<const AdasumPair> pairs, DataType dtype);
AdasumPlan plan_adasum(std::span<const AdasumPair> pairs, DataType dtype,
                       const AdasumBuckets& buckets);

/// Of 2 * `pairs` dots, adds the first half to the second. Both ranks of two that send each other
/// theirs come to the same bits.
std::vector<KernelLaunch<kernels::SumDotsArguments>> plan_adding_dots(kernels::Dots* both,
                                                                      std::size_t pairs);

}  // namespace hvd
