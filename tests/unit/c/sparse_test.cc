// SPDX-License-Identifier: Apache-2.0
#include "hvd/sparse.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace hvd::detail {
namespace {

using Indices = std::vector<std::int64_t>;

template <typename T>
class SparseAverage : public testing::Test {};
using Integers = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                                std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(SparseAverage, Integers);

// int8 has no 128, uint8 no 256; and the sum of 300 rows fits into neither.
TYPED_TEST(SparseAverage, CountsMoreRanksThanTheTypeHolds) {
  for (const int ranks : {1, 127, 128, 255, 256, 300}) {
    Sparse<TypeParam> rows;
    for (int rank = 0; rank < ranks; ++rank) {
      rows.indices.push_back(7);
      rows.values.insert(rows.values.end(), {100, 3});
    }
    rows.indices.push_back(2);
    rows.values.insert(rows.values.end(), {100, 0});
    const Sparse<TypeParam> average = average_of_rows(rows, 2, ranks);
    EXPECT_EQ(average.indices, (Indices{7, 2})) << ranks;
    const auto lone = static_cast<TypeParam>(100 / ranks);
    EXPECT_EQ(average.values, (std::vector<TypeParam>{100, 3, lone, 0})) << ranks;
  }
}

TEST(SparseAverages, GoesTowardZero) {
  const Sparse<std::int8_t> rows{{0, 0, 1}, {-100, -100, 100}};
  EXPECT_EQ(average_of_rows(rows, 1, 3).values, (std::vector<std::int8_t>{-66, 33}));
}

TEST(SparseAverages, KeepsEachRowOfFloats) {
  const Sparse<float> rows{{4, 4}, {3, 6}};
  const Sparse<float> average = average_of_rows(rows, 1, 300);
  EXPECT_EQ(average.indices, (Indices{4, 4}));
  EXPECT_EQ(average.values, (std::vector<float>{3.0F / 300, 6.0F / 300}));
}

}  // namespace
}  // namespace hvd::detail
