// SPDX-License-Identifier: Apache-2.0
// What host and kernels agree on: plain C++ for every compiler that reads it, those of GPUs
// included.
#pragma once

#include <cstdint>

namespace hvd::kernels {

/// Threads of a block, whatever the kernel.
inline constexpr std::uint32_t kThreads = 256;
/// Tensors of one launch: arguments end at 4 KiB.
inline constexpr std::uint32_t kMaxTensors = 200;
/// A group of elements is what fills so many bytes: of the wider side, where a type is cast.
inline constexpr std::uint32_t kGroupBytes = 16;
/// Groups that one thread has in flight; half as many where two vectors are read.
inline constexpr std::uint32_t kGroupsPerThread = 4;
inline constexpr std::uint32_t kPairGroupsPerThread = 2;
/// Groups whose products one thread adds up. Many, so that there are few partial sums.
inline constexpr std::uint32_t kGroupsPerDot = 64;
/// Partial sums that one thread adds up.
inline constexpr std::uint32_t kSumsPerThread = 64;

/// Kernels count in 32 bits. Longer tensors are cut into pieces of so many elements, and a launch
/// is told the window of a bucket that its offsets begin at.
inline constexpr std::uint64_t kMaxPiece = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kOffsetWindow = std::uint64_t{1} << 32;

/// Some tensors, where each lies in a bucket, and which blocks are for it: those from its first one
/// to the first one of the next tensor.
struct TensorList {
  void* tensors[kMaxTensors];
  std::uint32_t offsets[kMaxTensors];  ///< In bytes from the begin of the bucket.
  std::uint32_t counts[kMaxTensors];   ///< Elements; bytes for the kernel that copies.
  std::uint32_t first_blocks[kMaxTensors];
  std::uint32_t size;
};

enum class Direction : std::uint32_t {
  kPack = 0,     ///< From the tensors to the bucket.
  kUnpack = 1,   ///< From the bucket to the tensors.
  kInPlace = 2,  ///< From the tensors to themselves; there is no bucket.
};

/// Of the kernels that copy, cast and scale floats: to = cast(from * scale). The scaling is in
/// float64 where either side is, else in float32.
struct PackArguments {
  void* bucket;
  double scale;
  Direction direction;
  TensorList list;
};

/// Of the kernels that scale integers in place, as an average or a scale does after a reduction.
struct IntegerScaleArguments {
  double scale;
  std::int64_t divisor;
  TensorList list;
};

/// Of the kernel that fills tensors with a pattern: counts are in bytes.
struct FillArguments {
  std::uint32_t pattern[4];
  TensorList list;
};

/// Pieces of vectors, at the same offsets of two buckets.
struct PairList {
  const void* lower;
  const void* higher;
  std::uint32_t offsets[kMaxTensors];
  std::uint32_t counts[kMaxTensors];
  std::uint32_t first_blocks[kMaxTensors];
  std::uint32_t pairs[kMaxTensors];  ///< The pair of vectors that each piece is of.
  std::uint32_t size;
};

/// Squares of the lengths of two vectors, and their product.
struct Dots {
  double lower;
  double higher;
  double product;
};
struct Weights {
  double lower;
  double higher;
};

/// Of the kernels that multiply vectors. Each thread writes its Dots at first_block * kThreads +
/// the number of the thread in the launch.
struct DotArguments {
  Dots* partials;
  PairList pairs;
};

/// Of the kernel that adds up Dots: of each pair, `outputs` sums of which output i takes the inputs
/// i, i + outputs, ...
struct SumDotsArguments {
  const Dots* from;
  Dots* to;
  std::uint32_t first_inputs[kMaxTensors];
  std::uint32_t input_counts[kMaxTensors];
  std::uint32_t first_outputs[kMaxTensors];
  std::uint32_t output_counts[kMaxTensors];
  std::uint32_t size;
};

/// Of the kernel that weighs `count` pairs by their Dots.
struct WeighArguments {
  const Dots* dots;
  Weights* weights;
  std::uint32_t count;
};

/// Of the kernels that add weighted vectors: result = weights.lower * lower + weights.higher *
/// higher, at the offsets of the pairs. The result may be one of the two.
struct CombineArguments {
  void* result;
  const Weights* weights;  ///< By the number of the pair.
  PairList pairs;
};

// The limit of kernel arguments before sm_70, and of older drivers after it.
static_assert(sizeof(PackArguments) <= 4096);
static_assert(sizeof(CombineArguments) <= 4096);
static_assert(sizeof(SumDotsArguments) <= 4096);

}  // namespace hvd::kernels
