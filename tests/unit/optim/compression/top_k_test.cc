// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>

#include "compression/ranks.h"

namespace hvd {
namespace {

Compression top_k(double ratio) {
  return {.method = CompressionMethod::kTopK, .ratio = ratio, .smallest = 1};
}

/// The elements of the largest magnitude, the first of equal ones, by sorting.
std::vector<std::size_t> plain_top(const Vector& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  order.resize(k);
  return order;
}

TEST(TopK, IsThePlainFormulaWithErrorFeedback) {
  struct Case {
    std::size_t ranks;
    std::size_t count;
    double ratio;
    std::size_t k;
  };
  for (const Case& one : {Case{1, 10, 0.1, 1}, Case{2, 100, 0.05, 5}, Case{3, 1'000, 0.001, 1},
                          Case{4, 777, 0.25, 195}, Case{2, 5'000, 0.4, 2'000}}) {
    Ranks ranks(one.ranks, top_k(one.ratio), {static_cast<std::int64_t>(one.count)});
    std::vector<Vector> residuals(one.ranks, Vector(one.count, 0.0F));
    for (std::uint32_t step = 1; step < 5; ++step) {
      auto gradients = noise_by_rank(one.ranks, one.count, step);
      Vector expected(one.count, 0.0F);
      for (std::size_t rank = 0; rank < one.ranks; ++rank) {
        for (std::size_t i = 0; i < one.count; ++i) residuals[rank][i] += gradients[rank][i];
        for (const std::size_t i : plain_top(residuals[rank], one.k)) {
          expected[i] +=
              static_cast<float>(1.0 / static_cast<double>(one.ranks)) * residuals[rank][i];
          residuals[rank][i] = 0;
        }
      }
      ranks.step(gradients);
      EXPECT_EQ(ranks.bytes_sent(), 8 * one.k);
      for (const Vector& gradient : gradients) ASSERT_EQ(gradient, expected);
    }
  }
}

TEST(TopK, TakesTheFirstOfEqualMagnitudes) {
  Ranks ranks(1, top_k(0.3), {10});
  std::vector<Vector> gradients{{1, -1, 2, 1, -1, 1, 1, 1, 1, 1}};
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], (Vector{1, -1, 2, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(TopK, LosesNothingOverTime) {
  Ranks ranks(2, top_k(0.1), {20});
  Vector total(20, 0.0F);
  for (int step = 0; step < 200; ++step) {
    std::vector<Vector> gradients(2, Vector(20, 1.0F));
    ranks.step(gradients);
    for (std::size_t i = 0; i < 20; ++i) total[i] += gradients[0][i];
  }
  for (const float sum : total) EXPECT_NEAR(sum, 200, 10);
}

TEST(TopK, AStepThatIsNotFiniteLeavesTheResidual) {
  Ranks ranks(1, top_k(0.25), {4});
  std::vector<Vector> gradients{{4, 3, 2, 1}};
  ranks.step(gradients);
  gradients[0] = Vector(4, std::numeric_limits<float>::quiet_NaN());
  ranks.step(gradients);
  EXPECT_TRUE(std::isnan(gradients[0][0]));
  gradients[0] = Vector(4, 0.0F);
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], (Vector{0, 3, 0, 0}));
}

TEST(TopK, AStepThatIsNotFiniteLeavesEveryRankAsItWas) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    Ranks ranks(3, top_k(0.1), {100});
    auto gradients = noise_by_rank(3, 100, 1);
    ranks.step(gradients);
    const std::vector<Bytes> before{ranks.state(0), ranks.state(1), ranks.state(2)};
    gradients = noise_by_rank(3, 100, 2);
    gradients[1][7] = bad;
    ranks.step(gradients);
    expect_same_on_all(gradients);
    for (const float value : gradients[0]) ASSERT_TRUE(std::isnan(value));
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.state(rank), before[rank]);
  }
}

/// Finite on each rank, and perhaps not together.
TEST(TopK, AResultThatOverflowsIsALostStep) {
  Ranks ranks(2, top_k(0.25), {4});
  std::vector<Vector> gradients(2, Vector{2e38F, 1, 1, 1});
  const Bytes before = ranks.state(0);
  ranks.step(gradients, {ReduceOp::kSum});
  EXPECT_TRUE(std::isnan(gradients[1][0]) && std::isnan(gradients[1][1]));
  EXPECT_EQ(ranks.state(0), before);
}

TEST(TopK, WorksAtEveryNorm) {
  for (const double size : {1e-36, 1e-30, 1e-11, 1.0, 1e8, 1e30, 1e36}) {
    Ranks ranks(2, top_k(0.25), {8});
    std::vector<double> total(8, 0.0);
    for (int step = 0; step < 40; ++step) {
      std::vector<Vector> gradients(2, Vector(8, static_cast<float>(size)));
      ranks.step(gradients);
      for (std::size_t i = 0; i < 8; ++i) total[i] += gradients[0][i];
    }
    for (const double sum : total) EXPECT_NEAR(sum / size, 40, 4);
  }
}

TEST(TopK, CorrectsMomentumAndForgetsItWhereAnElementWasSent) {
  Ranks ranks(
      1, {.method = CompressionMethod::kTopK, .ratio = 0.25, .smallest = 1, .momentum = 0.5}, {4});
  std::vector<Vector> gradients{{8, 4, 0, 0}};
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], (Vector{8, 0, 0, 0}));
  gradients[0] = Vector(4, 0.0F);  // u: 0, 2; v: 0, 6
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], (Vector{0, 6, 0, 0}));
  gradients[0] = {0, 0, 4, 1};  // u: 0, 0, 4, 1
  ranks.step(gradients, {ReduceOp::kAverage}, 1, false);
  EXPECT_EQ(gradients[0], (Vector{0, 0, 4, 0}));
  gradients[0] = {0, 0, 4, 1};  // that step did not count
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], (Vector{0, 0, 4, 0}));
  gradients[0] = Vector(4, 0.0F);
  ranks.step(gradients, {ReduceOp::kAverage}, 2);  // u: 0, 0, 0, 0.5; v: 1.5; twice that
  EXPECT_EQ(gradients[0], (Vector{0, 0, 0, 3}));
}

/// The optimizer has no momentum then: gradients that travel whole need one, too.
TEST(TopK, GivesMomentumToWhatTravelsWhole) {
  for (const Compression& whole : std::initializer_list<Compression>{
           {.method = CompressionMethod::kTopK, .smallest = 3, .momentum = 0.5},
           {.method = CompressionMethod::kTopK, .ratio = 0.9, .smallest = 1, .momentum = 0.5}}) {
    Ranks ranks(2, whole, {2});
    std::vector<Vector> gradients{{1, 2}, {3, 2}};
    ranks.step(gradients, {ReduceOp::kSum, 0.25, 2});  // half of the sum
    EXPECT_EQ(gradients[0], (Vector{2, 2}));
    gradients = {{8, 0}, {0, 0}};  // of a scale of 4
    ranks.step(gradients, {ReduceOp::kSum, 0.25, 2}, 4);
    expect_same_on_all(gradients);
    EXPECT_EQ(gradients[0], (Vector{8, 4}));
    const Bytes before = ranks.state(1);
    gradients = {{1, INFINITY}, {0, 0}};
    ranks.step(gradients);
    EXPECT_TRUE(std::isnan(gradients[1][0]) && std::isnan(gradients[1][1]));
    EXPECT_EQ(ranks.state(1), before);
    gradients = {{1, 1}, {1, 1}};
    ranks.step(gradients, {ReduceOp::kAverage}, 1, false);
    EXPECT_EQ(ranks.state(1), before);
    EXPECT_EQ(gradients[1], (Vector{3, 2}));
  }
}

TEST(TopK, RefusesAnIndexBeyondTheGradient) {
  Ranks ranks(1, top_k(0.25), {4});
  Vector gradient{4, 3, 2, 1};
  ranks[0].begin({.gradient = gradient});
  GatherResult gathered;
  gathered.rows = {2};
  gathered.data.reset(new std::byte[8]);
  const std::uint32_t wrong = 4;
  std::memcpy(gathered.data.get(), &wrong, sizeof wrong);
  EXPECT_EQ(ranks[0].resume(&gathered).status().code(), Code::kInternal);
}

}  // namespace
}  // namespace hvd
