// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_norm.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "collective/half_bits.h"

namespace hvd {

namespace {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

double value_of(double value) { return value; }
double value_of(float value) { return value; }
double value_of(Float16 value) { return float16_to_float(value.bits); }
double value_of(Bfloat16 value) { return bfloat16_to_float(value.bits); }

void multiply(double& value, double factor) { value *= factor; }
void multiply(float& value, double factor) { value *= static_cast<float>(factor); }
void multiply(Float16& value, double factor) {
  value.bits = float_to_float16(float16_to_float(value.bits) * static_cast<float>(factor));
}
void multiply(Bfloat16& value, double factor) {
  value.bits = float_to_bfloat16(bfloat16_to_float(value.bits) * static_cast<float>(factor));
}

template <typename T>
double sum_of_squares(const T* values, std::size_t count) {
  std::array<double, 4> sums{};  // several chains of additions hide their latency
  for (std::size_t i = 0; i < count; ++i) {
    const double value = value_of(values[i]);
    sums[i % sums.size()] += value * value;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Calls visit(pointer to the elements as their type) for floating types.
template <typename Visit>
void with_elements(DataType dtype, void* data, const Visit& visit) {
  switch (dtype) {
    case DataType::kFloat16:
      return visit(static_cast<Float16*>(data));
    case DataType::kBfloat16:
      return visit(static_cast<Bfloat16*>(data));
    case DataType::kFloat32:
      return visit(static_cast<float*>(data));
    case DataType::kFloat64:
      return visit(static_cast<double*>(data));
    default:
      return;
  }
}

}  // namespace

double squared_norm(DataType dtype, const void* data, std::size_t count) {
  double total = 0;
  with_elements(dtype, const_cast<void*>(data),
                [&](const auto* values) { total = sum_of_squares(values, count); });
  return total;
}

bool all_finite(DataType dtype, const void* data, std::size_t count) {
  if (dtype == DataType::kComplex64) return all_finite(DataType::kFloat32, data, 2 * count);
  if (dtype == DataType::kComplex128) return all_finite(DataType::kFloat64, data, 2 * count);
  bool are_finite = true;
  with_elements(dtype, const_cast<void*>(data), [&](const auto* values) {
    for (std::size_t i = 0; i < count; ++i) are_finite &= std::isfinite(value_of(values[i]));
  });
  return are_finite;
}

void scale_in_place(DataType dtype, void* data, std::size_t count, double factor) {
  with_elements(dtype, data, [&](auto* values) {
    for (std::size_t i = 0; i < count; ++i) multiply(values[i], factor);
  });
}

double clip_factor(double norm, double limit) {
  const double factor = limit / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

}  // namespace hvd
