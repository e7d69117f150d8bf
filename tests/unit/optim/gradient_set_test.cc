// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_set.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

std::vector<GradientSet::Gradient> three_of_40_bytes() {
  std::vector<GradientSet::Gradient> gradients;
  for (const char* name : {"a", "b", "c"}) {
    gradients.push_back({name, Tensor{.shape = {2, 5}}});
  }
  return gradients;
}

TEST(GradientSet, SubmitsInPlaceAndWakesWithTheLast) {
  GradientSet set(three_of_40_bytes(), {});
  float data[10];
  const auto first = set.ready(1, data, false).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->name, "b");
  EXPECT_EQ(first->tensors[0].input, data);
  EXPECT_EQ(first->tensors[0].output, data);
  EXPECT_TRUE(first->more);
  EXPECT_TRUE(set.ready(0, data, false).value()->more);
  EXPECT_EQ(set.missing(), (std::vector<std::size_t>{2}));
  EXPECT_FALSE(set.ready(2, data, false).value()->more);
  EXPECT_TRUE(set.missing().empty());
}

TEST(GradientSet, WakesWhenABucketIsFull) {
  GradientSet set(three_of_40_bytes(), {.flush_bytes = 80});
  float data[10];
  EXPECT_TRUE(set.ready(0, data, false).value()->more);
  EXPECT_FALSE(set.ready(1, data, false).value()->more);
  EXPECT_FALSE(set.ready(2, data, false).value()->more);
}

TEST(GradientSet, AccumulatesPassesBeforeItSubmits) {
  GradientSet set(three_of_40_bytes(), {.passes_per_step = 2});
  float data[10];
  EXPECT_FALSE(set.ready(0, data, false).value().has_value());
  EXPECT_TRUE(set.ready(0, data, false).value().has_value());
  EXPECT_TRUE(set.ready(1, data, true).value().has_value());  // a step cut short
}

TEST(GradientSet, RefusesAPassTooManyUntilTheNextStep) {
  GradientSet set(three_of_40_bytes(), {});
  float data[10];
  EXPECT_TRUE(set.ready(0, data, false).is_ok());
  EXPECT_EQ(set.ready(0, data, false).status().code(), Code::kInvalidArgument);
  set.begin_step();
  EXPECT_TRUE(set.ready(0, data, false).is_ok());
  EXPECT_EQ(set.ready(3, data, false).status().code(), Code::kInvalidArgument);
}

TEST(GradientSet, TakesANewDescription) {
  GradientSet set(three_of_40_bytes(), {});
  ASSERT_TRUE(set.describe(0, Tensor{.shape = {5, 2}, .layout = 9}).is_ok());
  float data[10];
  EXPECT_EQ(set.ready(0, data, false).value()->tensors[0].layout, 9u);
  EXPECT_FALSE(set.set_passes_per_step(0).is_ok());
}

}  // namespace
}  // namespace hvd
