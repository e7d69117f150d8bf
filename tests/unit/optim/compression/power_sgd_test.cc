// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "compression/ranks.h"

namespace hvd {
namespace {

Compression power_sgd(int rank) {
  return {.method = CompressionMethod::kPowerSgd, .rank = rank, .smallest = 1};
}

/// sum over k of outer(a_k, b_k): a matrix of the given rank.
Vector low_rank(std::size_t rows, std::size_t columns, std::size_t rank, std::uint32_t seed) {
  const Vector a = noise(rank * rows, seed);
  const Vector b = noise(rank * columns, seed + 1);
  Vector matrix(rows * columns, 0.0F);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t k = 0; k < rank; ++k) {
      matrix[i] += a[k * rows + i / columns] * b[k * columns + i % columns];
    }
  }
  return matrix;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double norm(const Vector& a) { return distance(a, Vector(a.size(), 0.0F)); }

TEST(PowerSgd, IsExactForMatricesOfItsRank) {
  for (const std::size_t rank : {1U, 2U, 4U}) {
    const Vector matrix = low_rank(40, 30, rank, 5);
    Ranks ranks(2, power_sgd(static_cast<int>(rank)), {40, 5, 6});
    std::vector<Vector> gradients(2, matrix);
    for (float& value : gradients[1]) value *= 3;
    ranks.step(gradients, {ReduceOp::kSum, 1, 0.25});
    expect_same_on_all(gradients);
    EXPECT_LT(distance(gradients[0], matrix), 1e-4 * norm(matrix)) << rank;
    EXPECT_EQ(ranks.bytes_sent(), rank * (40 + 30) * sizeof(float));
  }
}

TEST(PowerSgd, IsThePlainFormula) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kColumns = 9;
  constexpr std::size_t kRanks = 3;
  Ranks ranks(kRanks, power_sgd(1), {kRows, kColumns});
  // The start is the library's own: taken from its state.
  ByteWriter state;
  ranks[0].save(state);
  std::vector<double> q(kColumns);
  for (std::size_t j = 0; j < kColumns; ++j) {
    float value = 0;
    std::memcpy(&value, state.bytes().data() + 16 + (kRows * kColumns + j) * 4, 4);
    q[j] = value;
  }
  std::vector<std::vector<double>> residuals(kRanks, std::vector<double>(kRows * kColumns, 0.0));
  for (std::uint32_t step = 1; step < 6; ++step) {
    auto gradients = noise_by_rank(kRanks, kRows * kColumns, step);
    std::vector<double> p(kRows, 0.0);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < kRows * kColumns; ++i) {
        residuals[rank][i] += gradients[rank][i];  // M
        p[i / kColumns] += residuals[rank][i] * q[i % kColumns];
      }
    }
    double length = 0;
    for (const double value : p) length += value * value;
    for (double& value : p) value /= std::sqrt(length);
    std::fill(q.begin(), q.end(), 0.0);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      std::vector<double> own(kColumns, 0.0);
      for (std::size_t i = 0; i < kRows * kColumns; ++i) {
        own[i % kColumns] += residuals[rank][i] * p[i / kColumns];
      }
      for (std::size_t j = 0; j < kColumns; ++j) q[j] += own[j] / kRanks;
      for (std::size_t i = 0; i < kRows * kColumns; ++i) {
        residuals[rank][i] -= p[i / kColumns] * own[i % kColumns];
      }
    }
    ranks.step(gradients);
    expect_same_on_all(gradients);
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      ASSERT_NEAR(gradients[0][i], p[i / kColumns] * q[i % kColumns], 1e-5) << step << " " << i;
    }
  }
}

TEST(PowerSgd, FeedbackDeliversAConstantGradientOverTime) {
  const Vector matrix = noise(20 * 15, 3);
  Ranks ranks(2, power_sgd(2), {20, 15});
  Vector total(matrix.size(), 0.0F);
  constexpr int kSteps = 300;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Vector> gradients(2, matrix);
    ranks.step(gradients);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += gradients[0][i] / kSteps;
  }
  EXPECT_LT(distance(total, matrix), 0.1 * norm(matrix));
}

TEST(PowerSgd, SurvivesAStepOfZerosAndOneThatIsNotFinite) {
  const Vector matrix = low_rank(8, 8, 2, 9);
  Ranks ranks(2, power_sgd(2), {8, 8});
  std::vector<Vector> gradients(2, Vector(64, 0.0F));
  ranks.step(gradients);
  EXPECT_EQ(gradients[0], Vector(64, 0.0F));
  gradients[1][7] = std::numeric_limits<float>::infinity();
  ranks.step(gradients);
  expect_same_on_all(gradients);
  EXPECT_TRUE(std::isnan(gradients[0][0]));
  gradients.assign(2, matrix);
  ranks.step(gradients);
  EXPECT_LT(distance(gradients[0], matrix), 1e-4 * norm(matrix));
}

/// The same at every size: what comes out grows with what goes in.
TEST(PowerSgd, WorksAtEveryNorm) {
  constexpr std::size_t kRows = 64;
  constexpr std::size_t kColumns = 48;
  constexpr int kSteps = 8;
  std::vector<Vector> expected;
  for (const double size : {1.0, 1e-36, 1e-30, 1e-11, 1e8, 1e20, 1e30, 1e36}) {
    Ranks ranks(2, power_sgd(2), {kRows, kColumns});
    for (int step = 0; step < kSteps; ++step) {
      auto gradients = noise_by_rank(2, kRows * kColumns, static_cast<std::uint32_t>(step));
      for (Vector& one : gradients) {
        for (float& value : one) value = static_cast<float>(value * size);
      }
      ranks.step(gradients);
      expect_same_on_all(gradients);
      for (float& value : gradients[0]) value = static_cast<float>(value / size);
      if (size == 1.0) expected.push_back(gradients[0]);
      const auto at = static_cast<std::size_t>(step);
      EXPECT_LT(distance(gradients[0], expected[at]), 1e-2 * norm(expected[at])) << size << step;
    }
  }
}

/// P is finite, Q is not.
TEST(PowerSgd, AResultThatOverflowsIsALostStep) {
  const Vector matrix = low_rank(8, 8, 2, 9);
  Ranks ranks(2, power_sgd(2), {8, 8});
  std::vector<Vector> gradients(2, noise(64, 4));
  ranks.step(gradients);
  const Bytes before = ranks.state(0);
  for (const Allreduce& large : {Allreduce{ReduceOp::kSum, 1, 1e38}, {ReduceOp::kSum, 1, 3e38}}) {
    gradients.assign(2, Vector(64, 1.0F));
    ranks.step(gradients, large);
    expect_same_on_all(gradients);
    for (const float value : gradients[0]) ASSERT_TRUE(std::isnan(value));
    EXPECT_EQ(ranks.state(0), before);
  }
}

TEST(PowerSgd, AStepThatIsNotFiniteLeavesEveryRankAsItWas) {
  Ranks ranks(3, power_sgd(2), {8, 8});
  auto gradients = noise_by_rank(3, 64, 1);
  ranks.step(gradients);
  const std::vector<Bytes> before{ranks.state(0), ranks.state(1), ranks.state(2)};
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    gradients = noise_by_rank(3, 64, 2);
    gradients[1][7] = bad;
    ranks.step(gradients);
    expect_same_on_all(gradients);
    for (const float value : gradients[0]) ASSERT_TRUE(std::isnan(value));
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.state(rank), before[rank]);
    EXPECT_EQ(ranks.bytes_sent(), 2 * 8 * sizeof(float));  // P alone
  }
  gradients = noise_by_rank(3, 64, 2);  // finite here, but not all of the step
  ranks.step(gradients, {ReduceOp::kAverage}, 1, false);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.state(rank), before[rank]);
}

TEST(PowerSgd, StartsDifferentlyForEveryName) {
  const Tensor gradient{.shape = {30, 30}};
  ByteWriter a;
  ByteWriter b;
  make_compressor(power_sgd(2), "a", gradient).value()->save(a);
  make_compressor(power_sgd(2), "b", gradient).value()->save(b);
  EXPECT_NE(a.bytes(), b.bytes());
}

}  // namespace
}  // namespace hvd
