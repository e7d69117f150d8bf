// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "collective/half_bits.h"

namespace hvd {
namespace {

TEST(GradientNorm, SumsSquaresOfEveryFloatingType) {
  const double values[] = {1, -2, 3, 0.5, 4};
  float singles[5];
  std::uint16_t halves[5];
  std::uint16_t brains[5];
  for (int i = 0; i < 5; ++i) {
    singles[i] = static_cast<float>(values[i]);
    halves[i] = float_to_float16(singles[i]);
    brains[i] = float_to_bfloat16(singles[i]);
  }
  const std::int32_t integers[] = {1, 2};
  const double expected = 1 + 4 + 9 + 0.25 + 16;
  EXPECT_EQ(squared_norm(DataType::kFloat64, values, 5), expected);
  EXPECT_EQ(squared_norm(DataType::kFloat32, singles, 5), expected);
  EXPECT_EQ(squared_norm(DataType::kFloat16, halves, 5), expected);
  EXPECT_EQ(squared_norm(DataType::kBfloat16, brains, 5), expected);
  EXPECT_EQ(squared_norm(DataType::kInt32, integers, 2), 0);
  EXPECT_EQ(squared_norm(DataType::kFloat32, nullptr, 0), 0);

  scale_in_place(DataType::kFloat16, halves, 5, 0.5);
  scale_in_place(DataType::kBfloat16, brains, 5, 0.5);
  scale_in_place(DataType::kFloat32, singles, 5, 0.5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(singles[i], values[i] / 2);
    EXPECT_EQ(float16_to_float(halves[i]), values[i] / 2);
    EXPECT_EQ(bfloat16_to_float(brains[i]), values[i] / 2);
  }
}

TEST(GradientNorm, DoesNotOverflowWhereFloat32Would) {
  const float large[] = {3e30F, 4e30F};
  EXPECT_NEAR(std::sqrt(squared_norm(DataType::kFloat32, large, 2)), 5e30, 1e24);
}

TEST(GradientNorm, FindsWhatIsNotFiniteInEveryFloatingType) {
  const float floats[] = {1, 3.4e38F, -INFINITY, 2};
  const double doubles[] = {1, 1e300, NAN, 2};
  const std::uint16_t halves[] = {0x7bff, 0, 0x7c00, 0};  // 65504, infinity
  const std::uint16_t brains[] = {0x7f7f, 0, 0xff80, 0};  // 3.4e38, -infinity
  const std::int32_t integers[] = {0, 0, 0x7f800000, 0};
  const std::pair<DataType, const void*> all[] = {{DataType::kFloat32, floats},
                                                  {DataType::kFloat64, doubles},
                                                  {DataType::kFloat16, halves},
                                                  {DataType::kBfloat16, brains}};
  for (const auto& [dtype, values] : all) {
    EXPECT_TRUE(all_finite(dtype, values, 2)) << name_of(dtype);
    EXPECT_FALSE(all_finite(dtype, values, 3)) << name_of(dtype);
  }
  EXPECT_TRUE(all_finite(DataType::kComplex64, floats, 1));
  EXPECT_FALSE(all_finite(DataType::kComplex64, floats, 2));
  EXPECT_FALSE(all_finite(DataType::kComplex128, doubles, 2));
  EXPECT_TRUE(all_finite(DataType::kInt32, integers, 4));
}

TEST(GradientNorm, ClipsToTheLimitAndHandsNanOn) {
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(0.9, 1), 1);
  EXPECT_NEAR(clip_factor(10, 1), 0.1, 1e-6);
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1)));
}

}  // namespace
}  // namespace hvd
