// SPDX-License-Identifier: Apache-2.0
#include "collective/identity.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hvd {
namespace {

/// The bits of 1, of the highest and of the lowest value of a float that C++ does not have.
template <typename Bits>
struct NarrowValues {
  Bits one;
  Bits highest;
  Bits lowest;
};
constexpr NarrowValues<std::uint16_t> kFloat16Values = {0x3C00, 0x7C00, 0xFC00};
constexpr NarrowValues<std::uint16_t> kBfloat16Values = {0x3F80, 0x7F80, 0xFF80};
constexpr NarrowValues<std::uint8_t> kFloat8E4m3Values = {0x38, 0x7E, 0xFE};
constexpr NarrowValues<std::uint8_t> kFloat8E5m2Values = {0x3C, 0x7C, 0xFC};

template <typename T>
constexpr T highest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::max();
}

template <typename T>
constexpr T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

template <typename T>
void fill(T value, void* elements, std::size_t count) {
  std::fill_n(static_cast<T*>(elements), count, value);
}

template <typename T>
void fill_number(ReduceOp op, void* elements, std::size_t count) {
  if (op == ReduceOp::kProduct) return fill(T{1}, elements, count);
  if (op == ReduceOp::kMin) return fill(highest<T>(), elements, count);
  if (op == ReduceOp::kMax) return fill(lowest<T>(), elements, count);
  fill(T{}, elements, count);
}

template <typename Bits>
void fill_narrow(ReduceOp op, const NarrowValues<Bits>& values, void* elements, std::size_t count) {
  Bits value = 0;
  if (op == ReduceOp::kProduct) value = values.one;
  if (op == ReduceOp::kMin) value = values.highest;
  if (op == ReduceOp::kMax) value = values.lowest;
  fill(value, elements, count);
}

template <typename T>
void fill_complex(ReduceOp op, void* elements, std::size_t count) {
  fill(T(op == ReduceOp::kProduct ? 1 : 0, 0), elements, count);
}

}  // namespace

void fill_identity(ReduceOp op, DataType dtype, void* elements, std::size_t count) {
  if (op == ReduceOp::kBitAnd && dtype != DataType::kBool) {
    std::memset(elements, 0xFF, count * size_of(dtype));
    return;
  }
  const bool is_true = op == ReduceOp::kProduct || op == ReduceOp::kMin || op == ReduceOp::kBitAnd;
  switch (dtype) {
    case DataType::kBool:
      return fill(static_cast<std::uint8_t>(is_true), elements, count);
    case DataType::kUint8:
      return fill_number<std::uint8_t>(op, elements, count);
    case DataType::kInt8:
      return fill_number<std::int8_t>(op, elements, count);
    case DataType::kUint16:
      return fill_number<std::uint16_t>(op, elements, count);
    case DataType::kInt16:
      return fill_number<std::int16_t>(op, elements, count);
    case DataType::kUint32:
      return fill_number<std::uint32_t>(op, elements, count);
    case DataType::kInt32:
      return fill_number<std::int32_t>(op, elements, count);
    case DataType::kUint64:
      return fill_number<std::uint64_t>(op, elements, count);
    case DataType::kInt64:
      return fill_number<std::int64_t>(op, elements, count);
    case DataType::kFloat32:
      return fill_number<float>(op, elements, count);
    case DataType::kFloat64:
      return fill_number<double>(op, elements, count);
    case DataType::kFloat16:
      return fill_narrow(op, kFloat16Values, elements, count);
    case DataType::kBfloat16:
      return fill_narrow(op, kBfloat16Values, elements, count);
    case DataType::kComplex64:
      return fill_complex<std::complex<float>>(op, elements, count);
    case DataType::kComplex128:
      return fill_complex<std::complex<double>>(op, elements, count);
    case DataType::kFloat8E4m3:
      return fill_narrow(op, kFloat8E4m3Values, elements, count);
    case DataType::kFloat8E5m2:
      return fill_narrow(op, kFloat8E5m2Values, elements, count);
  }
}

}  // namespace hvd
