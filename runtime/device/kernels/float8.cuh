// SPDX-License-Identifier: Apache-2.0
// The 8-bit formats of collective/float8_bits.h, for kernels: the same numbers and the same bits.
#pragma once

#include "device/kernels/transfer.cuh"

namespace hvd::kernels {

struct Float8E4m3Bits {
  static constexpr std::uint32_t kMantissaBits = 3;
  static constexpr std::uint32_t kBias = 7;
  static constexpr std::uint32_t kLargest = 0x43e00000;  ///< 448, as float32.
  static constexpr std::uint32_t kInfinity = 0x7f;       ///< An infinity becomes NaN.
  static constexpr std::uint32_t kNan = 0x7f;
};

struct Float8E5m2Bits {
  static constexpr std::uint32_t kMantissaBits = 2;
  static constexpr std::uint32_t kBias = 15;
  static constexpr std::uint32_t kLargest = 0x47600000;  ///< 57344.
  static constexpr std::uint32_t kInfinity = 0x7c;
  static constexpr std::uint32_t kNan = 0x7e;
};

/// One of them, which is float32 in arithmetic. By integers: GPUs before sm_89 have no instruction
/// for it, and memory is slower.
template <typename Bits>
struct Float8 {
  static constexpr int kBytes = 1;
  static constexpr std::uint32_t kDropped = 23 - Bits::kMantissaBits;

  static HVD_DEVICE float widen(std::uint32_t code) {
    const std::uint32_t magnitude = code & 0x7fU;
    const float scaled = __builtin_bit_cast(float, magnitude << kDropped) *
                         __builtin_bit_cast(float, (254U - Bits::kBias) << 23);
    std::uint32_t bits = __builtin_bit_cast(std::uint32_t, scaled);
    if (magnitude >= Bits::kInfinity) bits = 0x7fc00000U;
    if (magnitude == Bits::kInfinity && Bits::kInfinity != Bits::kNan) bits = 0x7f800000U;
    return __builtin_bit_cast(float, bits | (code & 0x80U) << 24);
  }

  static HVD_DEVICE std::uint32_t narrow(float value) {
    constexpr std::uint32_t kSmallestNormal = (128U - Bits::kBias) << 23;
    constexpr std::uint32_t kSubnormalMagic = (128U - Bits::kBias + kDropped) << 23;
    const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = all >> 24 & 0x80U;
    const std::uint32_t bits = all & 0x7fffffffU;
    if (bits == 0x7f800000U) return Bits::kInfinity | sign;
    if (bits > 0x7f800000U) return Bits::kNan | sign;
    const std::uint32_t clamped = bits < Bits::kLargest ? bits : Bits::kLargest;
    if (clamped < kSmallestNormal) {
      // Adding the magic number makes the adder round at the last bit of a subnormal result.
      const float aligned =
          __builtin_bit_cast(float, clamped) + __builtin_bit_cast(float, kSubnormalMagic);
      return (__builtin_bit_cast(std::uint32_t, aligned) - kSubnormalMagic) | sign;
    }
    const std::uint32_t half_step = (1U << (kDropped - 1U)) - 1U + ((clamped >> kDropped) & 1U);
    return (clamped - ((127U - Bits::kBias) << 23) + half_step) >> kDropped | sign;
  }
};

/// Byte after byte: sixteen at a time would fill the registers.
template <typename Bits>
struct Cast<Float8<Bits>, Float8<Bits>> {
  static constexpr int kGroup = 16;
  static constexpr int kFromBytes = 16;
  static constexpr int kToBytes = 16;
  using Factor = float;

  Factor factor;

  HVD_DEVICE std::uint32_t number(std::uint32_t code) const {
    return Float8<Bits>::narrow(Float8<Bits>::widen(code) * factor);
  }
  HVD_DEVICE void element(Byte* to, const Byte* from) const {
    *to = static_cast<Byte>(number(*from));
  }
  HVD_DEVICE void group(Byte* to, const std::uint32_t (&words)[4]) const {
    std::uint32_t out[4] = {};
    HVD_UNROLL
    for (int word = 0; word < 4; ++word) {
      HVD_NO_UNROLL
      for (int shift = 0; shift < 32; shift += 8) {
        out[word] |= number(words[word] >> shift & 0xffU) << shift;
      }
    }
    store_words(to, out);
  }
};

using Float8E4m3 = Float8<Float8E4m3Bits>;
using Float8E5m2 = Float8<Float8E5m2Bits>;

}  // namespace hvd::kernels
