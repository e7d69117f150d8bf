// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

// Conversions between float32 and the two 8-bit formats of the OCP "8-bit floating point
// specification" (OFP8, 2023): round to nearest even, finite values beyond the largest saturate.
// `static` on purpose: see reduce_loops.h. Without branches, so that loops over them are
// vectorised.
namespace hvd {

/// `yes` or `no`. A conditional expression is a branch to gcc where a side of it is made by
/// floating-point arithmetic.
[[maybe_unused]] static constexpr std::uint32_t either(bool condition, std::uint32_t yes,
                                                       std::uint32_t no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

/// One sign bit, 4 exponent bits (bias 7), 3 mantissa bits; no infinity, NaN is s.1111.111.
struct Float8E4m3 {
  static constexpr unsigned kMantissaBits = 3;
  static constexpr unsigned kBias = 7;
  static constexpr float kLargest = 448.0F;
  static constexpr std::uint8_t kInfinity = 0x7f;  ///< An infinity becomes NaN.
  static constexpr std::uint8_t kNan = 0x7f;
};

/// One sign bit, 5 exponent bits (bias 15), 2 mantissa bits; infinity and NaN as IEEE 754.
struct Float8E5m2 {
  static constexpr unsigned kMantissaBits = 2;
  static constexpr unsigned kBias = 15;
  static constexpr float kLargest = 57344.0F;
  static constexpr std::uint8_t kInfinity = 0x7c;
  static constexpr std::uint8_t kNan = 0x7e;
};

template <typename Format>
[[maybe_unused]] static constexpr std::uint8_t float_to_float8(float value) {
  constexpr unsigned kDropped = 23U - Format::kMantissaBits;
  constexpr std::uint32_t kLargest = __builtin_bit_cast(std::uint32_t, Format::kLargest);
  constexpr std::uint32_t kSmallestNormal = (128U - Format::kBias) << 23;
  constexpr std::uint32_t kSubnormalMagic = (128U - Format::kBias + kDropped) << 23;
  const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t bits = all & 0x7fffffffU;
  const std::uint32_t clamped = bits < kLargest ? bits : kLargest;
  // Adding the magic number makes the adder round at the last bit of a subnormal result.
  const float aligned =
      __builtin_bit_cast(float, clamped) + __builtin_bit_cast(float, kSubnormalMagic);
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, aligned) - kSubnormalMagic;
  const std::uint32_t half_step = (1U << (kDropped - 1U)) - 1U + ((clamped >> kDropped) & 1U);
  const std::uint32_t normal = (clamped - ((127U - Format::kBias) << 23) + half_step) >> kDropped;
  const std::uint32_t finite = either(clamped < kSmallestNormal, subnormal, normal);
  const std::uint32_t special = either(bits == 0x7f800000U, Format::kInfinity, Format::kNan);
  const std::uint32_t code = either(bits >= 0x7f800000U, special, finite);
  return static_cast<std::uint8_t>(code | (all >> 24 & 0x80U));
}

template <typename Format>
[[maybe_unused]] static constexpr float float8_to_float(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fU;
  // The multiplication moves the exponent to float32's bias; subnormals become normal on the way.
  const float scaled = __builtin_bit_cast(float, magnitude << (23U - Format::kMantissaBits)) *
                       __builtin_bit_cast(float, (254U - Format::kBias) << 23);
  const bool is_infinite = magnitude == Format::kInfinity && Format::kInfinity != Format::kNan;
  const std::uint32_t special = either(is_infinite, 0x7f800000U, 0x7fc00000U);
  const std::uint32_t bits =
      either(magnitude >= Format::kInfinity, special, __builtin_bit_cast(std::uint32_t, scaled));
  return __builtin_bit_cast(float, bits | (code & 0x80U) << 24);
}

/// The value of each code.
template <typename Format>
inline constexpr std::array<float, 256> kFloat8Values = [] {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code) {
    values[code] = float8_to_float<Format>(static_cast<std::uint8_t>(code));
  }
  return values;
}();

}  // namespace hvd
