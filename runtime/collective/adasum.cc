// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum.h"

#include <algorithm>

#include "base/check.h"

namespace hvd {

namespace {

AdasumKernels kernels_of(DataType real) {
  static const AdasumKernelFinder find = best_adasum_finder();
  HVD_CHECK(real == DataType::kFloat32 || real == DataType::kFloat64);
  return find(real == DataType::kFloat64);
}

const std::byte* at(const void* elements, DataType real, std::size_t index) {
  return static_cast<const std::byte*>(elements) + index * size_of(real);
}

}  // namespace

void adasum(DataType real, void* result, const void* lower, const void* higher, std::size_t count) {
  AdasumDots dots;
  for (std::size_t i = 0; i < count; i += kAdasumChunk) {
    measure_adasum(real, at(lower, real, i), at(higher, real, i), std::min(kAdasumChunk, count - i),
                   dots);
  }
  blend_adasum(real, result, lower, higher, count, adasum_weights(dots));
}

void measure_adasum(DataType real, const void* lower, const void* higher, std::size_t count,
                    AdasumDots& dots) {
  const AdasumDots more = kernels_of(real).measure(lower, higher, count);
  dots.lower += more.lower;
  dots.higher += more.higher;
  dots.product += more.product;
}

void blend_adasum(DataType real, void* result, const void* lower, const void* higher,
                  std::size_t count, const AdasumWeights& weights) {
  kernels_of(real).blend(result, lower, higher, count, weights);
}

AdasumWeights adasum_weights(const AdasumDots& dots) {
  // A square that is zero, or too small for a float64, says nothing about the direction.
  return {.lower = dots.lower == 0.0 ? 1.0 : 1.0 - dots.product / dots.lower * 0.5,
          .higher = dots.higher == 0.0 ? 1.0 : 1.0 - dots.product / dots.higher * 0.5};
}

AdasumSchedule::AdasumSchedule(int size) : doublings_(0) {
  HVD_CHECK(size > 0);
  while (2 << doublings_ <= size) ++doublings_;
  extra_ = size - (1 << doublings_);
}

// Ranks 1, 3, ... beside the first `extra_` even ones stand aside while the others double.
AdasumSchedule::Step AdasumSchedule::step_aside(int rank, bool before) const {
  if (rank >= 2 * extra_) return {};
  const bool aside = rank % 2 == 1;
  return {.peer = rank ^ 1,
          .sends = aside == before,
          .receives = aside != before,
          .combines = before && !aside};
}

AdasumSchedule::Step AdasumSchedule::step(int level, int rank) const {
  if (extra_ == 0) return doubling(level, rank);
  if (level == 0) return step_aside(rank, true);
  if (level == levels() - 1) return step_aside(rank, false);
  return doubling(level - 1, rank);
}

AdasumSchedule::Step AdasumSchedule::doubling(int doubling, int rank) const {
  const bool paired = rank < 2 * extra_;
  if (paired && rank % 2 == 1) return {};
  const int place = paired ? rank / 2 : rank - extra_;
  const int other = place ^ (1 << doubling);
  return {.peer = other < extra_ ? 2 * other : other + extra_,
          .sends = true,
          .receives = true,
          .combines = true};
}

}  // namespace hvd
