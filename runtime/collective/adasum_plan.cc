// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum_plan.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/rounding.h"

namespace hvd {
namespace {

using kernels::CombineArguments;
using kernels::DotArguments;
using kernels::Dots;
using kernels::kMaxTensors;
using kernels::kThreads;
using kernels::PairList;
using kernels::SumDotsArguments;
using kernels::WeighArguments;
using kernels::Weights;

const void* at(const void* bucket, std::size_t offset) {
  return static_cast<const std::byte*>(bucket) + offset;
}
void* at(void* bucket, std::size_t offset) { return static_cast<std::byte*>(bucket) + offset; }

/// Elements that a block multiplies, or adds.
std::size_t tile(DataType dtype, std::uint32_t groups_per_thread) {
  return std::size_t{kThreads} * groups_per_thread * (kernels::kGroupBytes / size_of(dtype));
}

/// Partial sums of a pair: one of each thread of its blocks; an empty vector has a block, too.
std::size_t partials_of(const AdasumPair& pair, DataType dtype) {
  std::size_t blocks =
      divide_up(pair.count % kernels::kMaxPiece, tile(dtype, kernels::kGroupsPerDot));
  blocks += pair.count / kernels::kMaxPiece *
            divide_up(kernels::kMaxPiece, tile(dtype, kernels::kGroupsPerDot));
  return std::max<std::size_t>(1, blocks) * kThreads;
}

std::string_view kernel_of(DataType dtype, bool product) {
  switch (dtype) {
    case DataType::kFloat16:
      return product ? "hvd_dot_float16" : "hvd_combine_float16";
    case DataType::kBfloat16:
      return product ? "hvd_dot_bfloat16" : "hvd_combine_bfloat16";
    case DataType::kFloat32:
      return product ? "hvd_dot_float32" : "hvd_combine_float32";
    case DataType::kFloat64:
      return product ? "hvd_dot_float64" : "hvd_combine_float64";
    default:
      return {};
  }
}

void begin_window(DotArguments& arguments, const AdasumBuckets& /*buckets*/, std::size_t /*offset*/,
                  std::size_t blocks) {
  arguments.partials += blocks * kThreads;
}
void begin_window(CombineArguments& arguments, const AdasumBuckets& buckets, std::size_t offset,
                  std::size_t /*blocks*/) {
  arguments.result = at(buckets.result, offset);
}

/// Launches over the pieces of all pairs; `first` has what does not depend on the pieces.
template <typename Arguments>
std::vector<KernelLaunch<Arguments>> plan_pieces(std::span<const AdasumPair> pairs,
                                                 const AdasumBuckets& buckets, DataType dtype,
                                                 const KernelLaunch<Arguments>& first,
                                                 std::size_t tile) {
  std::vector<KernelLaunch<Arguments>> launches;
  std::size_t window = 0;
  std::size_t blocks = 0;  // of all launches
  const auto add = [&](std::size_t pair, std::size_t offset, std::size_t count) {
    if (launches.empty() || launches.back().arguments.pairs.size == kMaxTensors ||
        offset / kernels::kOffsetWindow != window) {
      window = offset / kernels::kOffsetWindow;
      Arguments& arguments = launches.emplace_back(first).arguments;
      arguments.pairs.lower = at(buckets.lower, window * kernels::kOffsetWindow);
      arguments.pairs.higher = at(buckets.higher, window * kernels::kOffsetWindow);
      begin_window(arguments, buckets, window * kernels::kOffsetWindow, blocks);
    }
    KernelLaunch<Arguments>& launch = launches.back();
    PairList& list = launch.arguments.pairs;
    list.offsets[list.size] = static_cast<std::uint32_t>(offset % kernels::kOffsetWindow);
    list.counts[list.size] = static_cast<std::uint32_t>(count);
    list.first_blocks[list.size] = launch.shape.blocks;
    list.pairs[list.size] = static_cast<std::uint32_t>(pair);
    ++list.size;
    const std::size_t more = std::max<std::size_t>(1, divide_up(count, tile));
    launch.shape.blocks += static_cast<unsigned>(more);
    blocks += more;
  };
  for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
    std::size_t begin = 0;
    do {
      const std::size_t count =
          std::min<std::size_t>(kernels::kMaxPiece, pairs[pair].count - begin);
      add(pair, pairs[pair].offset + begin * size_of(dtype), count);
      begin += count;
    } while (begin < pairs[pair].count);
  }
  return launches;
}

/// How many numbers of each pair there are at one level of the sums.
using Counts = std::vector<std::size_t>;

std::size_t total(const Counts& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

Counts next_level(const Counts& counts) {
  Counts next;
  for (const std::size_t count : counts) next.push_back(divide_up(count, kernels::kSumsPerThread));
  return next;
}

Counts first_level(std::span<const AdasumPair> pairs, DataType dtype) {
  Counts counts;
  for (const AdasumPair& pair : pairs) counts.push_back(partials_of(pair, dtype));
  return counts;
}

void plan_level(const Counts& inputs, const Counts& outputs, const Dots* from, Dots* to,
                std::vector<KernelLaunch<SumDotsArguments>>& launches) {
  for (std::size_t begin = 0; begin < inputs.size(); begin += kMaxTensors) {
    SumDotsArguments arguments{};
    arguments.from = from;
    arguments.to = to;
    std::size_t read = 0;
    std::size_t written = 0;
    const std::size_t end = std::min<std::size_t>(inputs.size(), begin + kMaxTensors);
    for (std::size_t pair = begin; pair < end; ++pair) {
      arguments.first_inputs[arguments.size] = static_cast<std::uint32_t>(read);
      arguments.input_counts[arguments.size] = static_cast<std::uint32_t>(inputs[pair]);
      arguments.first_outputs[arguments.size] = static_cast<std::uint32_t>(written);
      arguments.output_counts[arguments.size] = static_cast<std::uint32_t>(outputs[pair]);
      ++arguments.size;
      read += inputs[pair];
      written += outputs[pair];
    }
    const auto blocks = static_cast<unsigned>(divide_up(written, kThreads));
    launches.push_back({"hvd_sum_dots", {blocks, kThreads}, arguments});
    from += read;
    to += written;
  }
}

/// What scratch memory holds, one after the other.
struct Scratch {
  std::size_t dots = 0;      ///< Of every pair.
  std::size_t weights = 0;   ///< Of every pair.
  std::size_t partials = 0;  ///< Of the threads, and of every second level.
  std::size_t sums = 0;      ///< Of the other levels.
  std::size_t bytes = 0;

  Scratch(std::size_t pairs, const Counts& first)
      : weights(pairs * sizeof(Dots)),
        partials(weights + pairs * sizeof(Weights)),
        sums(partials + total(first) * sizeof(Dots)),
        bytes(sums + total(next_level(first)) * sizeof(Dots)) {}
};

}  // namespace

std::size_t adasum_scratch_bytes(std::span<const AdasumPair> pairs, DataType dtype) {
  return Scratch(pairs.size(), first_level(pairs, dtype)).bytes;
}

AdasumPlan plan_adasum(std::span<const AdasumPair> pairs, DataType dtype,
                       const AdasumBuckets& buckets) {
  HVD_CHECK(!kernel_of(dtype, true).empty());
  if (pairs.empty()) return {};
  Counts counts = first_level(pairs, dtype);
  const Scratch scratch(pairs.size(), counts);
  AdasumPlan plan;
  plan.dots = static_cast<Dots*>(at(buckets.scratch, scratch.dots));
  auto* const weights = static_cast<Weights*>(at(buckets.scratch, scratch.weights));
  auto* from = static_cast<Dots*>(at(buckets.scratch, scratch.partials));
  auto* to = static_cast<Dots*>(at(buckets.scratch, scratch.sums));

  plan.products = plan_pieces<DotArguments>(
      pairs, buckets, dtype,
      {kernel_of(dtype, true), {0, kThreads}, {.partials = from, .pairs = {}}},
      tile(dtype, kernels::kGroupsPerDot));
  while (total(counts) > pairs.size()) {
    const Counts next = next_level(counts);
    plan_level(counts, next, from, total(next) == pairs.size() ? plan.dots : to, plan.sums);
    std::swap(from, to);
    counts = next;
  }
  plan.weights.push_back(
      {"hvd_weigh",
       {static_cast<unsigned>(divide_up(pairs.size(), kThreads)), kThreads},
       {.dots = plan.dots, .weights = weights, .count = static_cast<std::uint32_t>(pairs.size())}});
  plan.combinations =
      plan_pieces<CombineArguments>(pairs, buckets, dtype,
                                    {kernel_of(dtype, false),
                                     {0, kThreads},
                                     {.result = nullptr, .weights = weights, .pairs = {}}},
                                    tile(dtype, kernels::kPairGroupsPerThread));
  return plan;
}

std::vector<KernelLaunch<SumDotsArguments>> plan_adding_dots(Dots* both, std::size_t pairs) {
  if (pairs == 0) return {};
  // One list, of which output i takes the inputs i and i + pairs.
  SumDotsArguments arguments{};
  arguments.from = both;
  arguments.to = both + pairs;
  arguments.size = 1;
  arguments.input_counts[0] = static_cast<std::uint32_t>(2 * pairs);
  arguments.output_counts[0] = static_cast<std::uint32_t>(pairs);
  const auto blocks = static_cast<unsigned>(divide_up(pairs, kThreads));
  return {{"hvd_sum_dots", {blocks, kThreads}, arguments}};
}

Status AdasumPlan::enqueue_measuring(Gpu& gpu, StreamHandle stream) const {
  HVD_TRY(enqueue(gpu, products, stream));
  return enqueue(gpu, sums, stream);
}

Status AdasumPlan::enqueue_blending(Gpu& gpu, StreamHandle stream) const {
  HVD_TRY(enqueue(gpu, weights, stream));
  return enqueue(gpu, combinations, stream);
}

}  // namespace hvd
