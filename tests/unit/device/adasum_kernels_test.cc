// SPDX-License-Identifier: Apache-2.0
// The kernels of Adasum, against collective/adasum.h.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "collective/adasum.h"
#include "collective/adasum_plan.h"
#include "collective/half_bits.h"
#include "collective/pack_plan.h"
#include "kernel_arena.h"

namespace hvd {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kFloat64};

double read(DataType dtype, const std::byte* at) {
  std::uint16_t half = 0;
  float single = 0;
  double wide = 0;
  if (dtype == DataType::kFloat64) return std::memcpy(&wide, at, 8), wide;
  if (dtype == DataType::kFloat32) return std::memcpy(&single, at, 4), single;
  std::memcpy(&half, at, 2);
  return dtype == DataType::kFloat16 ? float16_to_float(half) : bfloat16_to_float(half);
}

void write(DataType dtype, std::byte* at, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DataType::kFloat64) {
    std::memcpy(at, &value, 8);
  } else if (dtype == DataType::kFloat32) {
    std::memcpy(at, &single, 4);
  } else {
    const std::uint16_t half =
        dtype == DataType::kFloat16 ? float_to_float16(single) : float_to_bfloat16(single);
    std::memcpy(at, &half, 2);
  }
}

/// Pairs of all sizes at all misalignments; more than one launch takes.
std::vector<AdasumPair> make_pairs(DataType dtype) {
  std::vector<AdasumPair> pairs;
  std::size_t end = 0;
  for (int repeat = 0; repeat < 14; ++repeat) {
    for (const std::size_t count : {0, 1, 3, 4, 8, 9, 100, 1023, 1024, 1025, 70'001, 2, 5, 6, 7}) {
      pairs.push_back({next_slot(end) + static_cast<std::size_t>(repeat) * size_of(dtype), count});
      end = pairs.back().offset + count * size_of(dtype);
    }
  }
  return pairs;
}

void fill_gradients(KernelArena& arena, std::span<const AdasumPair> pairs, DataType dtype,
                    std::uint64_t seed) {
  for (const AdasumPair& pair : pairs) {
    std::uint64_t state = seed + pair.count;
    for (std::size_t i = 0; i < pair.count; ++i) {
      const double value = static_cast<double>(next_random(state) >> 44) / (1 << 20) - 0.4;
      write(dtype, arena.expected(pair.offset + i * size_of(dtype)), value);
    }
  }
  arena.upload();
}

/// The gradients of two ranks, and what the kernels make of them.
struct Case {
  std::vector<AdasumPair> pairs;
  DataType dtype;
  KernelArena lower;
  KernelArena higher;
  KernelArena scratch;
  AdasumPlan plan;

  Case(std::vector<AdasumPair> all, DataType type)
      : pairs(std::move(all)),
        dtype(type),
        lower(bytes()),
        higher(bytes()),
        scratch(adasum_scratch_bytes(pairs, dtype)) {
    fill_gradients(lower, pairs, dtype, 17);
    fill_gradients(higher, pairs, dtype, 23);
    plan = plan_adasum(pairs, dtype, {lower.at(), higher.at(), lower.at(), scratch.at()});
    EXPECT_TRUE(plan.enqueue_measuring(kernel_gpu(), nullptr).is_ok());
    EXPECT_TRUE(plan.enqueue_blending(kernel_gpu(), nullptr).is_ok());
  }
  std::size_t bytes() const {
    return pairs.back().offset + pairs.back().count * size_of(dtype) + 64;
  }
  std::vector<kernels::Dots> dots() const {
    std::vector<kernels::Dots> all(pairs.size());
    std::memcpy(all.data(), scratch.contents().data(), all.size() * sizeof(kernels::Dots));
    return all;
  }
};

TEST(AdasumKernels, MeasureInFloat64) {
  for (const DataType dtype : kTypes) {
    Case one(make_pairs(dtype), dtype);
    ASSERT_GT(one.pairs.size(), kernels::kMaxTensors);
    const std::vector<kernels::Dots> dots = one.dots();
    for (std::size_t i = 0; i < one.pairs.size(); ++i) {
      long double lower = 0;
      long double higher = 0;
      long double product = 0;
      for (std::size_t j = 0; j < one.pairs[i].count; ++j) {
        const std::size_t at = one.pairs[i].offset + j * size_of(dtype);
        const long double a = read(dtype, one.lower.expected(at));
        const long double b = read(dtype, one.higher.expected(at));
        lower += a * a;
        higher += b * b;
        product += a * b;
      }
      const auto allowed = static_cast<double>((lower + higher) * 1e-14L);
      EXPECT_NEAR(dots[i].lower, static_cast<double>(lower), allowed) << name_of(dtype) << i;
      EXPECT_NEAR(dots[i].higher, static_cast<double>(higher), allowed) << name_of(dtype) << i;
      EXPECT_NEAR(dots[i].product, static_cast<double>(product), allowed) << name_of(dtype) << i;
    }
  }
}

TEST(AdasumKernels, BlendAsTheHostDoes) {
  for (const DataType dtype : kTypes) {
    Case one(make_pairs(dtype), dtype);
    const std::vector<kernels::Dots> dots = one.dots();
    for (std::size_t i = 0; i < one.pairs.size(); ++i) {
      const AdasumWeights weights =
          adasum_weights({dots[i].lower, dots[i].higher, dots[i].product});
      for (std::size_t j = 0; j < one.pairs[i].count; ++j) {
        const std::size_t at = one.pairs[i].offset + j * size_of(dtype);
        const double a = read(dtype, one.lower.expected(at));
        const double b = read(dtype, one.higher.expected(at));
        double blended = 0;
        blend_adasum(DataType::kFloat64, &blended, &a, &b, 1, weights);
        write(dtype, one.lower.expected(at), blended);
      }
    }
    const std::vector<std::byte> contents = one.lower.contents();
    EXPECT_EQ(std::memcmp(contents.data(), one.lower.expected(), contents.size()), 0)
        << name_of(dtype);
  }
}

TEST(AdasumKernels, GiveTheSameBitsWhereverTheVectorsLie) {
  for (const DataType dtype : kTypes) {
    std::vector<kernels::Dots> first;
    for (const std::size_t shift : {0, 1, 3, 4}) {
      const std::vector<AdasumPair> pairs = {{shift * size_of(dtype), 200'003}};
      const kernels::Dots dots = Case(pairs, dtype).dots()[0];
      first.push_back(dots);
      EXPECT_EQ(std::memcmp(&dots, &first[0], sizeof(dots)), 0) << name_of(dtype) << shift;
    }
  }
}

TEST(AdasumKernels, NothingIsLaunchedForNoPairs) {
  const AdasumPlan plan = plan_adasum({}, DataType::kFloat32, {});
  EXPECT_TRUE(plan.products.empty() && plan.sums.empty() && plan.combinations.empty());
}

}  // namespace
}  // namespace hvd
