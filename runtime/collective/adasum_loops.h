// SPDX-License-Identifier: Apache-2.0
// The loops of Adasum. Included once by each reduce_<isa>.cc, and with internal linkage for the
// reason given in reduce_loops.h.
#pragma once

#include "collective/adasum.h"
#include "collective/half_formats.h"

namespace hvd {
namespace {

// Sums in eight lanes, folded in a fixed order: the same bits however wide the vectors are.
constexpr std::size_t kDotLanes = 8;

inline double fold_lanes(const double* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

template <typename T>
AdasumDots measure(const void* lower, const void* higher, std::size_t count) {
  const T* a = static_cast<const T*>(lower);
  const T* b = static_cast<const T*>(higher);
  double aa[kDotLanes] = {};
  double bb[kDotLanes] = {};
  double ab[kDotLanes] = {};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    aa[lane] += x * x;
    bb[lane] += y * y;
    ab[lane] += x * y;
  };
  std::size_t i = 0;
  for (; i + kDotLanes <= count; i += kDotLanes) {
    for (std::size_t lane = 0; lane < kDotLanes; ++lane) add(i + lane, lane);
  }
  for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
  return {fold_lanes(aa), fold_lanes(bb), fold_lanes(ab)};
}

template <typename T>
void blend(void* result, const void* lower, const void* higher, std::size_t count,
           const AdasumWeights& weights) {
  const T* a = static_cast<const T*>(lower);
  const T* b = static_cast<const T*>(higher);
  T* out = static_cast<T*>(result);
  const double of_lower = weights.lower;
  const double of_higher = weights.higher;
  HVD_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(of_lower * static_cast<double>(a[i]) +
                            of_higher * static_cast<double>(b[i]));
  }
}

AdasumKernels find_adasum_kernels(bool is_double) {
  if (is_double) return {&measure<double>, &blend<double>};
  return {&measure<float>, &blend<float>};
}

}  // namespace
}  // namespace hvd
