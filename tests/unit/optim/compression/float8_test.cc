// SPDX-License-Identifier: Apache-2.0
#include "collective/float8_bits.h"

#include <cmath>
#include <limits>

#include "compression/ranks.h"

namespace hvd {
namespace {

struct Case {
  CompressionMethod method;
  float largest;          ///< Of the format.
  double relative_error;  ///< Of one rounding.
};

class Float8Compression : public testing::TestWithParam<Case> {
 protected:
  Compression compression() const { return {.method = GetParam().method, .smallest = 1}; }
};

TEST_P(Float8Compression, AveragesWithinItsRoundingError) {
  constexpr std::size_t kCount = 1'000;
  for (const std::size_t size : {1U, 2U, 5U}) {
    for (const float magnitude : {1e-33F, 1e-30F, 1e-4F, 1.0F, 1e30F, 1e38F}) {
      Ranks ranks(size, compression(), {kCount});
      auto gradients = noise_by_rank(size, kCount);
      for (Vector& one : gradients) {
        for (float& value : one) value *= magnitude;
      }
      const auto inputs = gradients;
      ranks.step(gradients);
      expect_same_on_all(gradients);
      for (std::size_t i = 0; i < kCount; ++i) {
        double average = 0;
        double allowed = 1e-6 * magnitude;
        for (const Vector& input : inputs) {
          average += input[i] / static_cast<double>(size);
          allowed += GetParam().relative_error * std::fabs(input[i]) / static_cast<double>(size);
        }
        ASSERT_NEAR(gradients[0][i], average, allowed) << i;
      }
      EXPECT_EQ(ranks.bytes_sent(), kCount + sizeof(float));
    }
  }
}

TEST_P(Float8Compression, ManyRanksSumSharesAndRoundTwice) {
  constexpr std::size_t kCount = 100'003;  // shares of different lengths
  for (const std::size_t size : {3U, 4U}) {
    Ranks ranks(size, compression(), {kCount});
    auto gradients = noise_by_rank(size, kCount);
    const auto inputs = gradients;
    ranks.step(gradients, {ReduceOp::kSum, 0.5, 1});
    expect_same_on_all(gradients);
    EXPECT_EQ(ranks.bytes_sent(), sizeof(float) + kCount + (kCount + size - 1) / size);
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      double allowed = 1e-5;
      for (const Vector& input : inputs) {
        sum += 0.5 * input[i];
        allowed += 0.5 * GetParam().relative_error * std::fabs(input[i]);
      }
      allowed += GetParam().relative_error * (std::fabs(sum) + allowed);
      ASSERT_NEAR(gradients[0][i], sum, allowed) << i;
    }
  }
}

TEST_P(Float8Compression, IsExactForValuesOfTheFormat) {
  Ranks ranks(2, compression(), {4});
  const float top = GetParam().largest / 2;  // the scale leaves it in the upper half of the range
  std::vector<Vector> gradients{{top, 1, -1.5F, 0}, {top, 1, 0.5F, 0}};
  ranks.step(gradients, {ReduceOp::kSum, 2, 0.25});
  EXPECT_EQ(gradients[0], (Vector{top, 1, -0.5F, 0}));
}

TEST_P(Float8Compression, HandsOnWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    Ranks ranks(3, compression(), {2});
    std::vector<Vector> gradients{{1, 2}, {bad, 2}, {1, 2}};
    ranks.step(gradients);
    expect_same_on_all(gradients);
    EXPECT_TRUE(std::isnan(gradients[0][0]) && std::isnan(gradients[0][1]));
  }
}

TEST_P(Float8Compression, OfZerosIsZero) {
  Ranks ranks(2, compression(), {3});
  std::vector<Vector> gradients(2, Vector(3, 0.0F));
  ranks.step(gradients);
  EXPECT_EQ(gradients[1], Vector(3, 0.0F));
  EXPECT_EQ(ranks.bytes_sent(), sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Float8Compression,
    testing::Values(Case{CompressionMethod::kFloat8E4m3, Float8E4m3::kLargest, 1.0 / 16},
                    Case{CompressionMethod::kFloat8E5m2, Float8E5m2::kLargest, 1.0 / 8}));

}  // namespace
}  // namespace hvd
