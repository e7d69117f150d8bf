// SPDX-License-Identifier: Apache-2.0
// Adasum of pairs of vectors: products, their sums, weights, weighted sums. See
// collective/adasum.h.
#pragma once

#include "device/kernels/formats.cuh"

namespace hvd::kernels {

HVD_DEVICE void add_products(Dots& dots, double lower, double higher) {
  dots.lower += lower * lower;
  dots.higher += higher * higher;
  dots.product += lower * higher;
}

/// The groups of one thread, from the first element on: both partners of a pair must get the same
/// bits, so what a thread adds up, and in which order, depends on no address.
template <typename Format>
struct DotGroups {
  static constexpr int kGroup = static_cast<int>(kGroupBytes) / Format::kBytes;
  static constexpr int kBatch = static_cast<int>(kPairGroupsPerThread);

  const Byte* lower;
  const Byte* higher;
  std::uint32_t first;
  std::uint32_t groups;
  Dots& dots;

  template <int kAlignment>
  HVD_DEVICE void run() const {
    for (std::uint32_t done = 0; done < kGroupsPerDot; done += kBatch) {
      const std::uint32_t begin = first + done * kThreads;
      if (begin >= groups) return;
      add<kAlignment>(begin);
    }
  }

  template <int kAlignment>
  HVD_DEVICE void add(std::uint32_t begin) const {
    // What is beyond the end stays zero, and adds zeros.
    std::uint32_t a[kBatch][4] = {};
    std::uint32_t b[kBatch][4] = {};
    HVD_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      const std::uint32_t group = begin + i * kThreads;
      if (group < groups) {
        load_words<kAlignment>(lower + std::uint64_t{group} * 16, a[i]);
        load_words<kAlignment>(higher + std::uint64_t{group} * 16, b[i]);
      }
    }
    HVD_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      HVD_UNROLL
      for (int j = 0; j < kGroup; ++j) {
        add_products(dots, Format::decode(a[i], j), Format::decode(b[i], j));
      }
    }
  }
};

template <typename Format>
HVD_DEVICE void dot(const DotArguments& arguments) {
  const PairList& pairs = arguments.pairs;
  const std::uint32_t piece = find_range(pairs.first_blocks, pairs.size, blockIdx.x);
  const std::uint32_t tile = blockIdx.x - pairs.first_blocks[piece];
  const std::uint32_t count = pairs.counts[piece];
  const Byte* const lower = static_cast<const Byte*>(pairs.lower) + pairs.offsets[piece];
  const Byte* const higher = static_cast<const Byte*>(pairs.higher) + pairs.offsets[piece];
  const std::uint32_t groups = count / DotGroups<Format>::kGroup;
  Dots dots = {0, 0, 0};
  const std::uint32_t at = groups * DotGroups<Format>::kGroup + threadIdx.x;
  if (tile == 0 && at < count) {
    const std::uint64_t offset = std::uint64_t{at} * Format::kBytes;
    add_products(dots, Format::load(lower + offset), Format::load(higher + offset));
  }
  with_alignment<16, Format::kBytes>(
      lower, higher,
      DotGroups<Format>{lower, higher, tile * kThreads * kGroupsPerDot + threadIdx.x, groups,
                        dots});
  arguments.partials[std::uint64_t{blockIdx.x} * kThreads + threadIdx.x] = dots;
}

HVD_DEVICE void sum_dots(const SumDotsArguments& arguments) {
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t pair = find_range(arguments.first_outputs, arguments.size, thread);
  const std::uint32_t output = thread - arguments.first_outputs[pair];
  const std::uint32_t outputs = arguments.output_counts[pair];
  if (output >= outputs) return;
  const Dots* const from = arguments.from + arguments.first_inputs[pair];
  Dots sum = {0, 0, 0};
  for (std::uint32_t i = output; i < arguments.input_counts[pair]; i += outputs) {
    sum.lower += from[i].lower;
    sum.higher += from[i].higher;
    sum.product += from[i].product;
  }
  arguments.to[thread] = sum;
}

HVD_DEVICE void weigh(const WeighArguments& arguments) {
  const std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  if (pair >= arguments.count) return;
  const Dots dots = arguments.dots[pair];
  arguments.weights[pair] = {
      dots.lower == 0.0 ? 1.0 : 1.0 - dots.product / dots.lower * 0.5,
      dots.higher == 0.0 ? 1.0 : 1.0 - dots.product / dots.higher * 0.5,
  };
}

template <typename Format>
struct CombineGroups {
  static constexpr int kGroup = static_cast<int>(kGroupBytes) / Format::kBytes;

  Byte* result;
  const Byte* lower;
  const Byte* higher;
  Weights weights;
  std::uint32_t first;
  std::uint32_t groups;

  HVD_DEVICE typename Format::Number number(typename Format::Number a,
                                            typename Format::Number b) const {
    return static_cast<typename Format::Number>(weights.lower * static_cast<double>(a) +
                                                weights.higher * static_cast<double>(b));
  }

  template <int kAlignment>
  HVD_DEVICE void run() const {
    if (first >= groups) return;
    std::uint32_t a[kPairGroupsPerThread][4];
    std::uint32_t b[kPairGroupsPerThread][4];
    HVD_UNROLL
    for (int i = 0; i < static_cast<int>(kPairGroupsPerThread); ++i) {
      // As in TransferGroups: no branch parts the loads.
      const std::uint32_t group = first + i * kThreads;
      const std::uint64_t at = group < groups ? group : first;
      load_words<kAlignment>(lower + at * 16, a[i]);
      load_words<kAlignment>(higher + at * 16, b[i]);
    }
    HVD_UNROLL
    for (int i = 0; i < static_cast<int>(kPairGroupsPerThread); ++i) {
      const std::uint32_t group = first + i * kThreads;
      std::uint32_t out[4];
      HVD_UNROLL
      for (int j = 0; j < kGroup; ++j) {
        Format::encode(number(Format::decode(a[i], j), Format::decode(b[i], j)), out, j);
      }
      if (group < groups) store_words(result + std::uint64_t{group} * 16, out);
    }
  }
};

template <typename Format>
HVD_DEVICE void combine(const CombineArguments& arguments) {
  const PairList& pairs = arguments.pairs;
  const std::uint32_t piece = find_range(pairs.first_blocks, pairs.size, blockIdx.x);
  const std::uint32_t tile = blockIdx.x - pairs.first_blocks[piece];
  const std::uint32_t count = pairs.counts[piece];
  const std::uint32_t offset = pairs.offsets[piece];
  Byte* const result = static_cast<Byte*>(arguments.result) + offset;
  const Byte* const lower = static_cast<const Byte*>(pairs.lower) + offset;
  const Byte* const higher = static_cast<const Byte*>(pairs.higher) + offset;
  const Split split = split_at(result, count, Format::kBytes, 16);
  const std::uint32_t skipped = split.head * Format::kBytes;
  const CombineGroups<Format> groups = {result + skipped,
                                        lower + skipped,
                                        higher + skipped,
                                        arguments.weights[pairs.pairs[piece]],
                                        tile * kThreads * kPairGroupsPerThread + threadIdx.x,
                                        split.groups};
  const std::uint32_t i = threadIdx.x;
  if (tile == 0 && i < split.head + split.tail) {
    const std::uint32_t element = i < split.head ? i : count - split.tail + i - split.head;
    const std::uint64_t at = std::uint64_t{element} * Format::kBytes;
    Format::store(result + at, groups.number(Format::load(lower + at), Format::load(higher + at)));
  }
  with_alignment<16, Format::kBytes>(groups.lower, groups.higher, groups);
}

}  // namespace hvd::kernels
