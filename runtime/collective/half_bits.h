// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Conversions between float32 and the half types, round to nearest even; the bits of F16C, NaN
// payloads included. `static` on purpose: see reduce_loops.h. Branch-free, so that loops over them
// are vectorised.
namespace hvd {

[[maybe_unused]] static constexpr float float16_to_float(std::uint16_t half) {
  constexpr std::uint32_t kInfinity = 0x7c00U << 13;
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  // The multiplication moves the exponent to float32's bias; subnormals become normal on the way.
  const float scaled =
      __builtin_bit_cast(float, magnitude) * __builtin_bit_cast(float, 0x77800000U);
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, scaled);
  bits |= magnitude >= kInfinity ? 0x7f800000U : 0U;
  bits |= magnitude > kInfinity ? 0x00400000U : 0U;
  bits |= (half & 0x8000U) << 16;
  return __builtin_bit_cast(float, bits);
}

[[maybe_unused]] static constexpr std::uint16_t float_to_float16(float value) {
  constexpr std::uint32_t kSubnormalMagic = (127U - 15U + 23U - 10U + 1U) << 23;
  const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = all & 0x80000000U;
  const std::uint32_t bits = all ^ sign;
  // Adding the magic number makes the adder round at the last bit of a subnormal half.
  const float aligned =
      __builtin_bit_cast(float, bits) + __builtin_bit_cast(float, kSubnormalMagic);
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, aligned) - kSubnormalMagic;
  const std::uint32_t normal = (bits + 0xc8000fffU + ((bits >> 13) & 1U)) >> 13;
  const std::uint32_t nan = 0x7e00U | ((bits >> 13) & 0x3ffU);
  const std::uint32_t large = bits > 0x7f800000U ? nan : 0x7c00U;
  const std::uint32_t finite = bits < (113U << 23) ? subnormal : normal;
  const std::uint32_t half = bits >= (143U << 23) ? large : finite;
  return static_cast<std::uint16_t>(half | (sign >> 16));
}

[[maybe_unused]] static constexpr float bfloat16_to_float(std::uint16_t half) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(half) << 16);
}

[[maybe_unused]] static constexpr std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(is_nan ? nan : rounded);
}

}  // namespace hvd
