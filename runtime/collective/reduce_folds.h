// SPDX-License-Identifier: Apache-2.0
// How two elements become one. Internal linkage on purpose: see reduce_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/half_lanes.h"

namespace hvd {
namespace {

template <bool kWide>
struct WrapType {
  using Type = std::uint32_t;
};
template <>
struct WrapType<true> {
  using Type = std::uint64_t;
};
/// Unsigned, at least as wide as int: arithmetic in it wraps instead of being undefined.
template <typename T>
using Wrap = typename WrapType<(sizeof(T) > 4)>::Type;

template <typename T>
constexpr bool kIsReal = false;
template <>
constexpr bool kIsReal<float> = true;
template <>
constexpr bool kIsReal<double> = true;
#if HVD_HAS_LANES
template <>
constexpr bool kIsReal<Lanes> = true;
#endif

struct Sum {
  template <typename T>
  static T fold(T a, T b) {
    if constexpr (kIsReal<T>) {
      return a + b;
    } else {
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    }
  }
};
struct Product {
  template <typename T>
  static T fold(T a, T b) {
    if constexpr (kIsReal<T>) {
      return a * b;
    } else {
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
    }
  }
};
// Without branches, and so for vectors too.
struct Min {
  template <typename T>
  static T fold(T a, T b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Max {
  template <typename T>
  static T fold(T a, T b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct BitAnd {
  template <typename T>
  static T fold(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <typename T>
  static T fold(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <typename T>
  static T fold(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace
}  // namespace hvd
