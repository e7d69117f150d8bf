// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"

namespace double_nccl {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(Stored stored) { return hvd::float16_to_float(stored); }
  static Stored store(float value) { return hvd::float_to_float16(value); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(Stored stored) { return hvd::bfloat16_to_float(stored); }
  static Stored store(float value) { return hvd::float_to_bfloat16(value); }
};

template <typename Format>
struct Float8 {
  using Stored = std::uint8_t;
  using Value = float;
  static float load(Stored stored) { return hvd::float8_to_float<Format>(stored); }
  /// NCCL keeps NaN, but no infinity.
  static Stored store(float value) {
    const bool is_infinite = std::isinf(value);
    return hvd::float_to_float8<Format>(is_infinite ? std::copysign(Format::kLargest, value)
                                                    : value);
  }
};

/// Calls use(Element{}) with the element of the type.
template <typename Use>
void with_element(ncclDataType_t dtype, Use&& use) {
  switch (dtype) {
    case ncclInt8:
      return use(Plain<std::int8_t>{});
    case ncclUint8:
      return use(Plain<std::uint8_t>{});
    case ncclInt32:
      return use(Plain<std::int32_t>{});
    case ncclUint32:
      return use(Plain<std::uint32_t>{});
    case ncclInt64:
      return use(Plain<std::int64_t>{});
    case ncclUint64:
      return use(Plain<std::uint64_t>{});
    case ncclFloat16:
      return use(Float16{});
    case ncclFloat32:
      return use(Plain<float>{});
    case ncclFloat64:
      return use(Plain<double>{});
    case ncclBfloat16:
      return use(Bfloat16{});
    case ncclFloat8e4m3:
      return use(Float8<hvd::Float8E4m3>{});
    case ncclFloat8e5m2:
      return use(Float8<hvd::Float8E5m2>{});
    default:
      return;
  }
}

/// values[i] = change(values[i], i) for all elements.
template <typename Element, typename Change>
void change_all(Bytes& values, Change&& change) {
  using Stored = typename Element::Stored;
  for (std::size_t i = 0; i < values.size() / sizeof(Stored); ++i) {
    Stored stored;
    std::memcpy(&stored, &values[i * sizeof(Stored)], sizeof(Stored));
    stored = Element::store(change(Element::load(stored), i));
    std::memcpy(&values[i * sizeof(Stored)], &stored, sizeof(Stored));
  }
}

template <typename Value>
Value added(Value a, Value b) {
  if constexpr (std::is_integral_v<Value>) {  // wraps
    using Unsigned = std::make_unsigned_t<Value>;
    return static_cast<Value>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename Value>
Value multiplied(Value a, Value b) {
  if constexpr (std::is_integral_v<Value>) {  // wraps
    return static_cast<Value>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename Value>
Value folded(Fold fold, Value a, Value b) {
  switch (fold) {
    case Fold::kProduct:
      return multiplied(a, b);
    case Fold::kMax:
      return a < b || b != b ? b : a;
    case Fold::kMin:
      return b < a || b != b ? b : a;
    default:
      return added(a, b);
  }
}

}  // namespace

void fold_into(Bytes& to, const Bytes& from, ncclDataType_t dtype, Fold fold) {
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    change_all<Element>(to, [&](auto value, std::size_t i) {
      typename Element::Stored other;
      std::memcpy(&other, &from[i * sizeof(other)], sizeof(other));
      return folded(fold, value, Element::load(other));
    });
  });
}

void scale(Bytes& values, ncclDataType_t dtype, std::uint64_t scalar) {
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    typename Element::Stored stored;
    std::memcpy(&stored, &scalar, sizeof(stored));
    const auto factor = Element::load(stored);
    change_all<Element>(values, [&](auto value, std::size_t) { return multiplied(value, factor); });
  });
}

void divide(Bytes& values, ncclDataType_t dtype, int divisor) {
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    change_all<Element>(values, [&](auto value, std::size_t) {
      return static_cast<typename Element::Value>(value /
                                                  static_cast<typename Element::Value>(divisor));
    });
  });
}

}  // namespace double_nccl
