// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include <gtest/gtest.h>

#include "collective/data_type.h"

namespace hvd {
namespace {

TEST(Operation, DescribesItselfWithItsParameters) {
  EXPECT_EQ(describe(Allreduce{}), "allreduce(sum)");
  EXPECT_EQ(describe(Allreduce{.op = ReduceOp::kAverage, .prescale = 0.5, .postscale = 2}),
            "allreduce(average, prescale 0.5, postscale 2)");
  EXPECT_EQ(describe(Broadcast{3}), "broadcast(root 3)");
  EXPECT_EQ(describe(Allgather{}), "allgather");
  EXPECT_EQ(kind_name(Barrier{}), "barrier");
}

TEST(DataType, KnowsItsSizeAndName) {
  EXPECT_EQ(size_of(DataType::kBfloat16), 2U);
  EXPECT_EQ(size_of(DataType::kUint64), 8U);
  EXPECT_EQ(name_of(DataType::kBool), "bool");
  EXPECT_TRUE(is_floating(DataType::kFloat16));
  EXPECT_FALSE(is_floating(DataType::kInt64));
}

}  // namespace
}  // namespace hvd
