// SPDX-License-Identifier: Apache-2.0
#include "collective/wire_cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "collective/half_bits.h"

namespace hvd {
namespace {

TEST(WireCast, CastsFloat32AndFloat64Only) {
  const Allreduce half{.wire = Wire::kFloat16};
  EXPECT_TRUE(WireCast::of(half, DataType::kFloat32).is_cast());
  EXPECT_EQ(WireCast::of(half, DataType::kFloat64).wire, DataType::kFloat16);
  EXPECT_EQ(WireCast::of({.wire = Wire::kBfloat16}, DataType::kFloat32).wire, DataType::kBfloat16);
  EXPECT_FALSE(WireCast::of({}, DataType::kFloat32).is_cast());
  for (const DataType same : {DataType::kFloat16, DataType::kInt32, DataType::kComplex64}) {
    EXPECT_FALSE(WireCast::of(half, same).is_cast());
  }
}

TEST(WireCast, ScalesAndRoundsOnTheWayIn) {
  const WireCast cast = WireCast::of({.prescale = 0.5, .wire = Wire::kFloat16}, DataType::kFloat32);
  const std::vector<float> values = {2, -3, 2049, 1e6F, 1e-9F};
  std::vector<std::uint16_t> wire(values.size());
  cast.narrow(wire.data(), values.data(), values.size());
  std::vector<float> back(values.size());
  cast.widen(back.data(), wire.data(), wire.size());
  EXPECT_EQ(back, (std::vector<float>{1, -1.5F, 1024, std::numeric_limits<float>::infinity(), 0}));
}

template <typename T, typename Bits>
void compare_casts(DataType element, DataType wire) {
  const std::size_t count = 10'007;
  std::vector<T> values(count);
  std::uint64_t state = 1;
  for (T& value : values) {  // raw bits: NaN, subnormals and halfway cases included
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto bits = static_cast<Bits>(state ^ (state >> 29));
    std::memcpy(&value, &bits, sizeof(value));
  }
  const WireCastKernels baseline = baseline_wire_casts(element, wire);
  const WireCastKernels best = best_wire_cast_finder()(element, wire);
  for (const double factor : {1.0, 0.3}) {
    std::vector<std::uint16_t> narrow[2] = {std::vector<std::uint16_t>(count),
                                            std::vector<std::uint16_t>(count)};
    baseline.narrow(narrow[0].data(), values.data(), count, factor);
    best.narrow(narrow[1].data(), values.data(), count, factor);
    EXPECT_EQ(narrow[0], narrow[1]);
    std::vector<T> wide[2] = {std::vector<T>(count), std::vector<T>(count)};
    baseline.widen(wide[0].data(), narrow[0].data(), count, 1);
    best.widen(wide[1].data(), narrow[0].data(), count, 1);
    EXPECT_EQ(std::memcmp(wide[0].data(), wide[1].data(), count * sizeof(T)), 0);
  }
}

TEST(WireCast, GivesTheSameBitsOnEveryProcessor) {
  for (const DataType wire : {DataType::kFloat16, DataType::kBfloat16}) {
    compare_casts<float, std::uint32_t>(DataType::kFloat32, wire);
    compare_casts<double, std::uint64_t>(DataType::kFloat64, wire);
  }
}

}  // namespace
}  // namespace hvd
