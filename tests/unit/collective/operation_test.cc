// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include <gtest/gtest.h>

#include <vector>

#include "collective/data_type.h"

namespace hvd {
namespace {

TEST(Operation, DescribesItselfWithItsParameters) {
  EXPECT_EQ(describe(Allreduce{}), "allreduce(sum)");
  EXPECT_EQ(describe(Allreduce{.op = ReduceOp::kAverage, .prescale = 0.5, .postscale = 2}),
            "allreduce(average, prescale 0.5, postscale 2)");
  EXPECT_EQ(describe(Broadcast{3}), "broadcast(root 3)");
  EXPECT_EQ(describe(Allgather{}), "allgather");
  EXPECT_EQ(describe(Allreduce{.wire = Wire::kBfloat16}), "allreduce(sum, as bfloat16)");
  EXPECT_EQ(describe(Reduce{2, ReduceOp::kBitOr, 0.5}), "reduce(bitwise or, root 2, prescale 0.5)");
  EXPECT_EQ(describe(Reducescatter{ReduceOp::kAverage}), "reducescatter(average)");
  EXPECT_EQ(describe(Scatter{1}), "scatter(root 1)");
  EXPECT_EQ(kind_name(Join{}), "join");
  EXPECT_EQ(kind_name(Barrier{}), "barrier");
}

TEST(Operation, SharesRowsWithTheFirstRanksLonger) {
  const auto shares = [](std::size_t rows, std::size_t size) {
    std::vector<std::size_t> lengths;
    for (std::size_t rank = 0; rank < size; ++rank) {
      lengths.push_back(first_row_of(rows, size, rank + 1) - first_row_of(rows, size, rank));
    }
    return lengths;
  };
  using Lengths = std::vector<std::size_t>;
  EXPECT_EQ(shares(7, 3), (Lengths{3, 2, 2}));
  EXPECT_EQ(shares(2, 4), (Lengths{1, 1, 0, 0}));
  EXPECT_EQ(shares(0, 2), (Lengths{0, 0}));
  const std::size_t huge = (std::size_t{1} << 40) + 1;
  EXPECT_EQ(shares(huge, 2), (Lengths{(huge + 1) / 2, huge / 2}));
}

TEST(DataType, KnowsItsSizeAndName) {
  EXPECT_EQ(size_of(DataType::kBfloat16), 2U);
  EXPECT_EQ(size_of(DataType::kUint64), 8U);
  EXPECT_EQ(name_of(DataType::kBool), "bool");
  EXPECT_EQ(size_of(DataType::kComplex128), 16U);
  EXPECT_EQ(name_of(DataType::kFloat8E5m2), "float8_e5m2");
  EXPECT_TRUE(is_floating(DataType::kFloat16));
  EXPECT_FALSE(is_floating(DataType::kInt64));
}

}  // namespace
}  // namespace hvd
