// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hvd {
namespace {

TEST(LearningRate, IsScaledAtOnceWithoutWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate_at({.base = 0.1, .factor = 8}, 0).value(), 0.8);
}

TEST(LearningRate, GrowsLinearlyDuringWarmUp) {
  const LearningRateScaling scaling{.base = 0.1, .factor = 5, .warmup_steps = 4};
  const double expected[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.5};
  for (int step = 0; step < 6; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_at(scaling, step).value(), expected[step]) << step;
  }
}

TEST(LearningRate, RefusesNegativeFields) {
  EXPECT_FALSE(learning_rate_at({.base = -1}, 0).is_ok());
  EXPECT_FALSE(learning_rate_at({.factor = 0}, 0).is_ok());
  EXPECT_FALSE(learning_rate_at({.warmup_steps = -1}, 0).is_ok());
  EXPECT_FALSE(learning_rate_at({}, -1).is_ok());
}

TEST(LearningRate, FactorsFollowTheirRules) {
  for (const double growth : {0.5, 1.0, 4.0, 256.0}) {
    EXPECT_EQ(rate_factor(RateRule::kConstant, growth).value(), 1);
    EXPECT_EQ(rate_factor(RateRule::kLinear, growth).value(), growth);
    EXPECT_EQ(rate_factor(RateRule::kSquareRoot, growth).value(), std::sqrt(growth));
  }
  for (const double growth : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(rate_factor(RateRule::kLinear, growth).status().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(rate_factor(static_cast<RateRule>(3), 1).is_ok());
}

TEST(TrustRatio, IsThePapersFormula) {
  EXPECT_DOUBLE_EQ(lars_ratio(3, 2, 0.001, 0), 0.001 * 3 / 2);
  EXPECT_DOUBLE_EQ(lars_ratio(3, 2, 0.001, 0.5), 0.001 * 3 / (2 + 0.5 * 3));
  EXPECT_DOUBLE_EQ(lamb_ratio(3, 2), 1.5);
}

TEST(TrustRatio, IsOneWhereANormSaysNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double none : {0.0, nan}) {
    EXPECT_EQ(lars_ratio(none, 1, 0.001, 0.1), 1);
    EXPECT_EQ(lars_ratio(1, none, 0.001, 0.1), 1);
    EXPECT_EQ(lamb_ratio(none, 1), 1);
    EXPECT_EQ(lamb_ratio(1, none), 1);
  }
}

}  // namespace
}  // namespace hvd
