// SPDX-License-Identifier: Apache-2.0
#include "element.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"

namespace hvd_test {
namespace {

struct Facts {
  const char* name;
  std::size_t bytes;
};
/// By hvd_dtype.
constexpr std::array<Facts, 17> kFacts{{{"uint8", 1},
                                        {"int8", 1},
                                        {"uint16", 2},
                                        {"int16", 2},
                                        {"int32", 4},
                                        {"int64", 8},
                                        {"float16", 2},
                                        {"float32", 4},
                                        {"float64", 8},
                                        {"bool", 1},
                                        {"bfloat16", 2},
                                        {"uint32", 4},
                                        {"uint64", 8},
                                        {"complex64", 8},
                                        {"complex128", 16},
                                        {"float8_e4m3", 1},
                                        {"float8_e5m2", 1}}};

const Facts& facts_of(hvd_dtype dtype) { return kFacts[static_cast<std::size_t>(dtype)]; }

template <typename T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* data, std::size_t i, T value) {
  std::memcpy(data + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::size_t size_of(hvd_dtype dtype) { return facts_of(dtype).bytes; }
const char* name_of(hvd_dtype dtype) { return facts_of(dtype).name; }
std::size_t components_of(hvd_dtype dtype) { return is_complex(dtype) ? 2 : 1; }

bool is_complex(hvd_dtype dtype) { return dtype == HVD_COMPLEX64 || dtype == HVD_COMPLEX128; }
bool is_float8(hvd_dtype dtype) { return dtype == HVD_FLOAT8_E4M3 || dtype == HVD_FLOAT8_E5M2; }
bool is_real(hvd_dtype dtype) {
  return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype == HVD_FLOAT32 ||
         dtype == HVD_FLOAT64;
}
bool is_signed(hvd_dtype dtype) {
  return is_real(dtype) || is_float8(dtype) || is_complex(dtype) || dtype == HVD_INT8 ||
         dtype == HVD_INT16 || dtype == HVD_INT32 || dtype == HVD_INT64;
}

double read_component(hvd_dtype dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case HVD_INT8:
      return load<std::int8_t>(data, i);
    case HVD_UINT16:
      return load<std::uint16_t>(data, i);
    case HVD_INT16:
      return load<std::int16_t>(data, i);
    case HVD_INT32:
      return load<std::int32_t>(data, i);
    case HVD_INT64:
      return static_cast<double>(load<std::int64_t>(data, i));
    case HVD_FLOAT16:
      return static_cast<double>(hvd::float16_to_float(load<std::uint16_t>(data, i)));
    case HVD_BFLOAT16:
      return static_cast<double>(hvd::bfloat16_to_float(load<std::uint16_t>(data, i)));
    case HVD_FLOAT32:
    case HVD_COMPLEX64:
      return static_cast<double>(load<float>(data, i));
    case HVD_FLOAT64:
    case HVD_COMPLEX128:
      return load<double>(data, i);
    case HVD_UINT32:
      return load<std::uint32_t>(data, i);
    case HVD_UINT64:
      return static_cast<double>(load<std::uint64_t>(data, i));
    case HVD_FLOAT8_E4M3:
      return static_cast<double>(
          hvd::float8_to_float<hvd::Float8E4m3>(load<std::uint8_t>(data, i)));
    case HVD_FLOAT8_E5M2:
      return static_cast<double>(
          hvd::float8_to_float<hvd::Float8E5m2>(load<std::uint8_t>(data, i)));
    default:
      return load<std::uint8_t>(data, i);
  }
}

void write_component(hvd_dtype dtype, std::byte* data, std::size_t i, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case HVD_FLOAT16:
      return store(data, i, hvd::float_to_float16(single));
    case HVD_BFLOAT16:
      return store(data, i, hvd::float_to_bfloat16(single));
    case HVD_FLOAT32:
    case HVD_COMPLEX64:
      return store(data, i, single);
    case HVD_FLOAT64:
    case HVD_COMPLEX128:
      return store(data, i, value);
    case HVD_FLOAT8_E4M3:
      return store(data, i, hvd::float_to_float8<hvd::Float8E4m3>(single));
    case HVD_FLOAT8_E5M2:
      return store(data, i, hvd::float_to_float8<hvd::Float8E5m2>(single));
    default:
      break;
  }
  const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  if (size_of(dtype) == 1) return store(data, i, static_cast<std::uint8_t>(whole));
  if (size_of(dtype) == 2) return store(data, i, static_cast<std::uint16_t>(whole));
  if (size_of(dtype) == 4) return store(data, i, static_cast<std::uint32_t>(whole));
  store(data, i, whole);
}

double spacing_of(hvd_dtype dtype) {
  if (dtype == HVD_FLOAT16) return 0x1p-10;
  if (dtype == HVD_BFLOAT16) return 0x1p-7;
  if (dtype == HVD_FLOAT8_E4M3) return 0x1p-3;
  if (dtype == HVD_FLOAT8_E5M2) return 0x1p-2;
  if (dtype == HVD_FLOAT32 || dtype == HVD_COMPLEX64) return 0x1p-23;
  if (dtype == HVD_FLOAT64 || dtype == HVD_COMPLEX128) return 0x1p-52;
  return 0;
}

}  // namespace hvd_test
