// SPDX-License-Identifier: Apache-2.0
#include "collective/data_type.h"

#include <array>

namespace hvd {
namespace {

struct TypeFacts {
  std::string_view name;
  std::size_t bytes;
  bool floating;
};

// By the number of the type.
constexpr std::array<TypeFacts, kDataTypeCount> kTypes = {{
    {"uint8", 1, false},
    {"int8", 1, false},
    {"uint16", 2, false},
    {"int16", 2, false},
    {"int32", 4, false},
    {"int64", 8, false},
    {"float16", 2, true},
    {"float32", 4, true},
    {"float64", 8, true},
    {"bool", 1, false},
    {"bfloat16", 2, true},
    {"uint32", 4, false},
    {"uint64", 8, false},
    {"complex64", 8, false},
    {"complex128", 16, false},
    {"float8_e4m3fn", 1, true},
    {"float8_e5m2", 1, true},
}};

constexpr TypeFacts kUnknown = {"unknown", 1, false};

const TypeFacts& facts(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index] : kUnknown;
}

}  // namespace

std::size_t size_of(DataType type) { return facts(type).bytes; }

std::string_view name_of(DataType type) { return facts(type).name; }

bool is_floating(DataType type) { return facts(type).floating; }

bool is_float8(DataType type) {
  return type == DataType::kFloat8E4m3 || type == DataType::kFloat8E5m2;
}

}  // namespace hvd
