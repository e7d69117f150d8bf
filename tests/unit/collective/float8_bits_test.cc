// SPDX-License-Identifier: Apache-2.0
#include "collective/float8_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hvd {
namespace {

template <typename Format>
class Float8 : public testing::Test {
 public:
  static constexpr bool kHasInfinity = Format::kInfinity != Format::kNan;
  static constexpr int kLargestCode = kHasInfinity ? 0x7b : 0x7e;
};
using Formats = testing::Types<Float8E4m3, Float8E5m2>;
TYPED_TEST_SUITE(Float8, Formats);

/// The definition: sign, exponent and mantissa spelled out.
template <typename Format>
float plain_value(int code) {
  const int mantissa_size = 1 << Format::kMantissaBits;
  const int exponent = (code & 0x7f) / mantissa_size;
  const int mantissa = code % mantissa_size;
  const int bias = static_cast<int>(Format::kBias);
  const double fraction = static_cast<double>(mantissa) / mantissa_size;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return static_cast<float>(code & 0x80 ? -magnitude : magnitude);
}

TYPED_TEST(Float8, EveryCodeHasItsValueAndComesBack) {
  for (int code = 0; code < 256; ++code) {
    const float value = float8_to_float<TypeParam>(static_cast<std::uint8_t>(code));
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    if ((code & 0x7f) > this->kLargestCode) {
      const bool is_infinity = this->kHasInfinity && (code & 0x7f) == TypeParam::kInfinity;
      EXPECT_EQ(std::isinf(value), is_infinity) << code;
      EXPECT_EQ(std::isnan(value), !is_infinity) << code;
      EXPECT_EQ(float_to_float8<TypeParam>(value) & 0x7f,
                is_infinity ? TypeParam::kInfinity : TypeParam::kNan);
      continue;
    }
    EXPECT_EQ(value, plain_value<TypeParam>(code)) << code;
    EXPECT_EQ(float_to_float8<TypeParam>(value), code);
    EXPECT_EQ(kFloat8Values<TypeParam>[static_cast<std::size_t>(code)], value);
  }
}

TYPED_TEST(Float8, RoundsToTheNearestAndTiesToEven) {
  for (int code = 0; code < this->kLargestCode; ++code) {
    const float low = plain_value<TypeParam>(code);
    const float high = plain_value<TypeParam>(code + 1);
    const float middle = low + (high - low) / 2;
    const float below = std::nextafter(middle, 0.0F);
    const float above = std::nextafter(middle, high);
    const int even = code % 2 == 0 ? code : code + 1;
    for (const float sign : {1.0F, -1.0F}) {
      const int bit = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(float_to_float8<TypeParam>(sign * middle), even | bit) << middle;
      EXPECT_EQ(float_to_float8<TypeParam>(sign * below), code | bit) << below;
      EXPECT_EQ(float_to_float8<TypeParam>(sign * above), (code + 1) | bit) << above;
    }
  }
}

TYPED_TEST(Float8, SaturatesFiniteValuesAndMarksTheOthers) {
  using Limits = std::numeric_limits<float>;
  const int largest = this->kLargestCode;
  EXPECT_EQ(plain_value<TypeParam>(largest), TypeParam::kLargest);
  EXPECT_EQ(float_to_float8<TypeParam>(2 * TypeParam::kLargest), largest);
  EXPECT_EQ(float_to_float8<TypeParam>(-Limits::max()), largest | 0x80);
  EXPECT_EQ(float_to_float8<TypeParam>(Limits::infinity()), TypeParam::kInfinity);
  EXPECT_EQ(float_to_float8<TypeParam>(Limits::quiet_NaN()) & 0x7f, TypeParam::kNan);
  EXPECT_EQ(float_to_float8<TypeParam>(Limits::denorm_min()), 0);
  EXPECT_EQ(float_to_float8<TypeParam>(-0.0F), 0x80);
}

}  // namespace
}  // namespace hvd
