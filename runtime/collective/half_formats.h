// SPDX-License-Identifier: Apache-2.0
// The types that are narrower than float32, by blocks. Internal linkage on purpose: see
// reduce_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "collective/half_lanes.h"

// The destination may be one of the sources, at the same index: no iteration depends on another.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd {
namespace {

constexpr std::size_t kBlock = 512;  // elements whose running result stays in the first cache

struct Float16 {
  using Stored = std::uint16_t;
  static constexpr bool kHasEight = HVD_HAS_LANES != 0;
#if HVD_HAS_LANES
  using Eight = Float16Lanes;
#endif
  static void widen(const std::uint16_t* source, float* values, std::size_t n) {
    std::size_t i = 0;
#if HVD_HAS_LANES
    for (; i + kLanes <= n; i += kLanes) Float32Lanes::store(values, i, Eight::load(source, i));
#endif
    for (; i < n; ++i) values[i] = float16_to_float(source[i]);
  }
  static void narrow(const float* values, std::uint16_t* out, std::size_t n) {
    std::size_t i = 0;
#if HVD_HAS_LANES
    for (; i + kLanes <= n; i += kLanes) Eight::store(out, i, Float32Lanes::load(values, i));
#endif
    for (; i < n; ++i) out[i] = float_to_float16(values[i]);
  }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  static constexpr bool kHasEight = HVD_HAS_LANES != 0;
#if HVD_HAS_LANES
  using Eight = Bfloat16Lanes;
#endif
  static void widen(const std::uint16_t* source, float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = bfloat16_to_float(source[i]);
  }
  static void narrow(const float* values, std::uint16_t* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = float_to_bfloat16(values[i]);
  }
};

template <typename Bits>
struct Float8 {
  using Stored = std::uint8_t;
  static constexpr bool kHasEight = false;
  static void widen(const std::uint8_t* source, float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = float8_to_float<Bits>(source[i]);
  }
  static void narrow(const float* values, std::uint8_t* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = float_to_float8<Bits>(values[i]);
  }
};

}  // namespace
}  // namespace hvd
