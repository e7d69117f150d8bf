// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace hvd {
namespace {

using Vector = std::vector<double>;

Vector combine(const Vector& a, const Vector& b) {
  Vector result(a.size());
  adasum(DataType::kFloat64, result.data(), a.data(), b.data(), a.size());
  return result;
}

std::vector<double> gradient(int rank, std::size_t count) {
  std::uint64_t state = static_cast<std::uint64_t>(rank) * 7919 + 17;
  Vector values(count);
  for (double& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<double>(state >> 40) / 1e7 - 0.6;
  }
  return values;
}

TEST(Adasum, AveragesEqualGradients) {
  const Vector a = gradient(1, 103);
  EXPECT_EQ(combine(a, a), a);
}

TEST(Adasum, AddsOrthogonalGradients) {
  EXPECT_EQ(combine({3, 0, -1, 0}, {0, 5, 0, 2}), (Vector{3, 5, -1, 2}));
}

TEST(Adasum, ScalesByWhatTheGradientsHaveInCommon) {
  // a.b = 2, |a|^2 = 4, |b|^2 = 2: 3/4 of a and 1/2 of b.
  EXPECT_EQ(combine({2, 0}, {1, 1}), (Vector{2, 0.5}));
}

TEST(Adasum, TakesNothingFromOrForAZeroGradient) {
  const Vector a = gradient(2, 9);
  const Vector zero(9);
  EXPECT_EQ(combine(a, zero), a);
  EXPECT_EQ(combine(zero, a), a);
  EXPECT_EQ(combine(zero, zero), zero);
  const Vector tiny(9, 1e-200);  // its square is below every float64
  for (const double value : combine(tiny, a)) EXPECT_TRUE(std::isfinite(value));
}

TEST(Adasum, HandsNanAndInfinityOn) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(std::isfinite(combine({infinity, 1}, {1, 1})[0]));
  EXPECT_TRUE(std::isnan(combine({std::nan(""), 1}, {1, 1})[1]));
}

template <typename T>
void compare_kernels(bool is_double, std::size_t count) {
  std::vector<T> a(count);
  std::vector<T> b(count);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = static_cast<T>(gradient(1, count)[i] * 1e-3);
    b[i] = static_cast<T>(gradient(2, count)[i] * 1e5);
  }
  std::vector<T> results[2];
  AdasumDots dots[2];
  const AdasumKernels kernels[] = {baseline_adasum_kernels(is_double),
                                   best_adasum_finder()(is_double)};
  for (int i = 0; i < 2; ++i) {
    results[i].resize(count);
    dots[i] = kernels[i].measure(a.data(), b.data(), count);
    kernels[i].blend(results[i].data(), a.data(), b.data(), count, adasum_weights(dots[i]));
  }
  EXPECT_EQ(std::memcmp(dots, dots + 1, sizeof(AdasumDots)), 0) << count;
  EXPECT_EQ(results[0], results[1]) << count;
}

TEST(Adasum, GivesTheSameBitsOnEveryProcessor) {
  for (const std::size_t count : {0, 1, 7, 8, 9, 64, 203}) {
    compare_kernels<float>(false, count);
    compare_kernels<double>(true, count);
  }
}

/// What the ranks hold after the schedule, each message a copy.
std::vector<Vector> run_schedule(int size, std::vector<Vector> held) {
  const AdasumSchedule schedule(size);
  for (int level = 0; level < schedule.levels(); ++level) {
    const std::vector<Vector> before = held;
    for (int rank = 0; rank < size; ++rank) {
      const AdasumSchedule::Step step = schedule.step(level, rank);
      if (step.peer < 0) continue;
      const AdasumSchedule::Step theirs = schedule.step(level, step.peer);
      EXPECT_EQ(theirs.peer, rank);
      EXPECT_EQ(theirs.sends, step.receives);
      if (!step.receives) continue;
      const Vector& mine = before[static_cast<std::size_t>(rank)];
      const Vector& other = before[static_cast<std::size_t>(step.peer)];
      Vector& result = held[static_cast<std::size_t>(rank)];
      result = other;
      if (step.combines) result = rank < step.peer ? combine(mine, other) : combine(other, mine);
    }
  }
  return held;
}

/// The definition, over a range of ranks: pairs first, then halves.
Vector reference(const std::vector<Vector>& inputs) {
  if (inputs.size() == 1) return inputs[0];
  const std::size_t power = std::bit_floor(inputs.size());
  std::vector<Vector> paired;
  const std::size_t extra = inputs.size() - power;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool absorbs = i < 2 * extra || (extra == 0 && i % 2 == 0);
    paired.push_back(absorbs ? combine(inputs[i], inputs[i + 1]) : inputs[i]);
    if (absorbs) ++i;
  }
  return reference(paired);
}

TEST(AdasumSchedule, GivesEveryRankTheReferenceForEverySize) {
  for (int size = 1; size <= 17; ++size) {
    std::vector<Vector> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(gradient(rank, 37));
    const Vector expected = reference(inputs);
    for (const Vector& result : run_schedule(size, inputs)) EXPECT_EQ(result, expected) << size;
  }
}

TEST(AdasumSchedule, TakesAsFewLevelsAsCanBe) {
  EXPECT_EQ(AdasumSchedule(1).levels(), 0);
  EXPECT_EQ(AdasumSchedule(2).levels(), 1);
  EXPECT_EQ(AdasumSchedule(8).levels(), 3);
  EXPECT_EQ(AdasumSchedule(5).levels(), 4);
}

}  // namespace
}  // namespace hvd
