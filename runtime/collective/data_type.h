// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvd {

/// Element types. The numbers are those of `hvd_dtype` in hvd.h (0-9 as Horovod counts them) and
/// travel on the wire.
enum class DataType : std::uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kBfloat16 = 10,
  kUint32 = 11,
  kUint64 = 12,
  kComplex64 = 13,
  kComplex128 = 14,
  kFloat8E4m3 = 15,  ///< Without infinity, as torch.float8_e4m3fn.
  kFloat8E5m2 = 16,
};
inline constexpr int kDataTypeCount = 17;

/// Bytes of one element.
std::size_t size_of(DataType type);
/// "float32", as numpy and torch spell it.
std::string_view name_of(DataType type);
/// Real numbers with an exponent; not the complex types.
bool is_floating(DataType type);
/// float8_e4m3fn and float8_e5m2.
bool is_float8(DataType type);

}  // namespace hvd
