// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "collective/data_type.h"
#include "collective/operation.h"

namespace hvd {

/// What a reducing operation does to its elements: out = post(fold(op, pre(in_0), pre(in_1), ...)).
///
/// The fold is strictly in the order of the sources. float16, bfloat16 and the 8-bit floats fold in
/// float32 and are rounded once, at the end (finite results too large for 8 bits become the largest
/// number); integers wrap; min and max hand a NaN on. Complex numbers add part by
/// part and multiply as (ac - bd) + (ad + bc)i. Of bool, sum, max and bitor mean "any", product,
/// min and bitand mean "all", and bitxor "an odd number". Scaling is in float64 for float64,
/// complex128 and the integers (truncated toward zero, clamped to the type), else in float32.
/// Immutable after construction.
struct Reduction {
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< Never kAverage: that is kSum with a divisor.
  double prescale = 1.0;
  double postscale = 1.0;
  int divisor = 1;  ///< Ranks, for an average.
  /// Partial results of a half type are rounded to it, because they travel: each node's sum is then
  /// rounded once more, and the nodes are folded in order, at once, instead of in a tree.
  bool narrow_partials = false;

  /// The reduction that `allreduce` means over `size` ranks, of what travels (see WireCast): where
  /// elements are cast, they are prescaled on the way in.
  static Reduction of(const Allreduce& allreduce, DataType dtype, int size);

  std::size_t element_bytes() const { return size_of(dtype); }
  /// Bytes of one partial result: float32 for the half types, unless they are narrow, and for 8-bit
  /// floats; else the type itself.
  std::size_t partial_bytes() const;
};

/// Ok, or kUnsupported with the reason: averages and scales of bool, bits of floats, scaled bits,
/// the order of complex numbers, Adasum of anything but floats of 16 bits and more.
Status check_reducible(const Allreduce& allreduce, DataType dtype);
/// The same for any operation; those that reduce nothing pass. Adasum is an allreduce only.
Status check_reduction(const Operation& operation, DataType dtype);

/// Which half of a reduction over several nodes a call does.
enum class ReduceStage {
  kWhole,    ///< Elements in, scaled elements out.
  kPartial,  ///< Elements in, partial results out: prescaled, not yet postscaled or rounded.
  kCombine,  ///< Partial results in and out.
  kFinish,   ///< Partial results in, scaled elements out.
};

/// Reduces `count` elements from every source into `destination`, which may be one of the sources
/// (where both hold the same format) but must not overlap them otherwise. The same bits on every
/// processor, except for the payload of a NaN where two NaNs meet.
void reduce_into(const Reduction& reduction, ReduceStage stage, void* destination,
                 std::span<const void* const> sources, std::size_t count);

}  // namespace hvd
