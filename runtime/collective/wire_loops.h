// SPDX-License-Identifier: Apache-2.0
// The loops that cast between elements and what travels in their place. Included once by each
// reduce_<isa>.cc, and with internal linkage for the reason given in reduce_loops.h.
#pragma once

#include "collective/half_formats.h"
#include "collective/wire_cast.h"

namespace hvd {
namespace {

template <typename T, typename Format>
void narrow_to_wire(void* destination, const void* source, std::size_t count, double factor) {
  const T scale = static_cast<T>(factor);
  const T* in = static_cast<const T*>(source);
  auto* out = static_cast<std::uint16_t*>(destination);
  std::size_t begin = 0;
#if HVD_HAS_LANES
  if constexpr (sizeof(T) == sizeof(float)) {
    for (; begin + kLanes <= count; begin += kLanes) {
      Format::Eight::store(out, begin, Float32Lanes::load(in, begin) * scale);
    }
  }
#endif
  for (; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    float values[kBlock];
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(in[begin + i] * scale);
    Format::narrow(values, out + begin, n);
  }
}

template <typename T, typename Format>
void widen_from_wire(void* destination, const void* source, std::size_t count, double /*factor*/) {
  const auto* in = static_cast<const std::uint16_t*>(source);
  T* out = static_cast<T*>(destination);
  std::size_t begin = 0;
#if HVD_HAS_LANES
  if constexpr (sizeof(T) == sizeof(float)) {
    for (; begin + kLanes <= count; begin += kLanes) {
      Float32Lanes::store(out, begin, Format::Eight::load(in, begin));
    }
  }
#endif
  for (; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    float values[kBlock];
    Format::widen(in + begin, values, n);
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(values[i]);
  }
}

template <typename T>
WireCastKernels find_wire_casts(DataType wire) {
  if (wire == DataType::kFloat16)
    return {&narrow_to_wire<T, Float16>, &widen_from_wire<T, Float16>};
  return {&narrow_to_wire<T, Bfloat16>, &widen_from_wire<T, Bfloat16>};
}

WireCastKernels find_wire_casts(DataType element, DataType wire) {
  return element == DataType::kFloat64 ? find_wire_casts<double>(wire)
                                       : find_wire_casts<float>(wire);
}

}  // namespace
}  // namespace hvd
