// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hvd
