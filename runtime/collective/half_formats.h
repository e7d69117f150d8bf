// SPDX-License-Identifier: Apache-2.0
// The half types by blocks. Internal linkage on purpose: see reduce_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "collective/half_bits.h"

// The destination may be one of the sources, at the same index: no iteration depends on another.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd {
namespace {

constexpr std::size_t kBlock = 512;  // elements whose running result stays in the first cache

struct Float16 {
  static void widen(const std::uint16_t* source, float* values, std::size_t n) {
    std::size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm256_storeu_ps(values + i, _mm256_cvtph_ps(halves));
    }
#endif
    for (; i < n; ++i) values[i] = float16_to_float(source[i]);
  }
  static void narrow(const float* values, std::uint16_t* out, std::size_t n) {
    std::size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
      const __m128i halves =
          _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
#endif
    for (; i < n; ++i) out[i] = float_to_float16(values[i]);
  }
};

struct Bfloat16 {
  static void widen(const std::uint16_t* source, float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = bfloat16_to_float(source[i]);
  }
  static void narrow(const float* values, std::uint16_t* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = float_to_bfloat16(values[i]);
  }
};

}  // namespace
}  // namespace hvd
