// SPDX-License-Identifier: Apache-2.0
// Element types: as numbers, and as they lie in words.
#pragma once

#include "device/kernels/words.cuh"

namespace hvd::kernels {

/// Bytes that are copied as they are.
struct Raw {
  using Number = Byte;
  static constexpr int kBytes = 1;
  static HVD_DEVICE Number load(const Byte* from) { return *from; }
  static HVD_DEVICE void store(Byte* to, Number value) { *to = value; }
};

struct Float32 {
  using Number = float;
  static constexpr int kBytes = 4;
  static HVD_DEVICE Number decode(const std::uint32_t* words, int i) {
    return __builtin_bit_cast(float, words[i]);
  }
  static HVD_DEVICE void encode(Number value, std::uint32_t* words, int i) {
    words[i] = __builtin_bit_cast(std::uint32_t, value);
  }
  static HVD_DEVICE Number load(const Byte* from) {
    std::uint32_t words[1];
    load_words<4>(from, words);
    return decode(words, 0);
  }
  static HVD_DEVICE void store(Byte* to, Number value) {
    const std::uint32_t words[1] = {__builtin_bit_cast(std::uint32_t, value)};
    store_words(to, words);
  }
};

struct Float64 {
  using Number = double;
  static constexpr int kBytes = 8;
  static HVD_DEVICE Number decode(const std::uint32_t* words, int i) {
    const std::uint64_t high = words[2 * i + 1];
    return __builtin_bit_cast(double, high << 32 | words[2 * i]);
  }
  static HVD_DEVICE void encode(Number value, std::uint32_t* words, int i) {
    const auto bits = __builtin_bit_cast(std::uint64_t, value);
    words[2 * i] = static_cast<std::uint32_t>(bits);
    words[2 * i + 1] = static_cast<std::uint32_t>(bits >> 32);
  }
  static HVD_DEVICE Number load(const Byte* from) {
    std::uint32_t words[2];
    load_words<8>(from, words);
    return decode(words, 0);
  }
  static HVD_DEVICE void store(Byte* to, Number value) {
    std::uint32_t words[2];
    encode(value, words, 0);
    store_words(to, words);
  }
};

/// float16 and bfloat16, which are float32 in arithmetic.
template <typename Bits>
struct Half {
  using Number = float;
  static constexpr int kBytes = 2;
  static HVD_DEVICE Number decode(const std::uint32_t* words, int i) {
    return Bits::widen(static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16)));
  }
  /// In the order of i.
  static HVD_DEVICE void encode(Number value, std::uint32_t* words, int i) {
    const std::uint32_t bits = Bits::narrow(value);
    words[i / 2] = i % 2 == 0 ? bits : words[i / 2] | bits << 16;
  }
  static HVD_DEVICE Number load(const Byte* from) {
    return Bits::widen(reinterpret_cast<const Short*>(from)->bits);
  }
  static HVD_DEVICE void store(Byte* to, Number value) {
    reinterpret_cast<Short*>(to)->bits = Bits::narrow(value);
  }
};

struct Float16Bits {
  static HVD_DEVICE float widen(std::uint16_t bits) { return float16_to_float(bits); }
  static HVD_DEVICE std::uint16_t narrow(float value) { return float_to_float16(value); }
};
struct Bfloat16Bits {
  static HVD_DEVICE float widen(std::uint16_t bits) { return bfloat16_to_float(bits); }
  static HVD_DEVICE std::uint16_t narrow(float value) { return float_to_bfloat16(value); }
};
using Float16 = Half<Float16Bits>;
using Bfloat16 = Half<Bfloat16Bits>;

}  // namespace hvd::kernels
