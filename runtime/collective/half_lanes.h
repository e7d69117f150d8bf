// SPDX-License-Identifier: Apache-2.0
// The half types eight at a time, where the instruction set has what it takes; the bits of
// half_bits.h. Internal linkage on purpose: see reduce_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define HVD_HAS_LANES 1
#else
#define HVD_HAS_LANES 0
#endif

#if HVD_HAS_LANES
namespace hvd {
namespace {

constexpr std::size_t kLanes = 8;
using Lanes = float __attribute__((vector_size(32)));

inline __m128i load_halves(const void* source, std::size_t i) {
  const auto* halves = static_cast<const std::uint16_t*>(source) + i;
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
}

inline void store_halves(void* destination, std::size_t i, __m128i halves) {
  auto* place = static_cast<std::uint16_t*>(destination) + i;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(place), halves);
}

struct Float32Lanes {
  static Lanes load(const void* source, std::size_t i) {
    return _mm256_loadu_ps(static_cast<const float*>(source) + i);
  }
  static void store(void* destination, std::size_t i, Lanes values) {
    _mm256_storeu_ps(static_cast<float*>(destination) + i, values);
  }
};

struct Float16Lanes {
  static Lanes load(const void* source, std::size_t i) {
    return _mm256_cvtph_ps(load_halves(source, i));
  }
  static void store(void* destination, std::size_t i, Lanes values) {
    store_halves(destination, i, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
};

struct Bfloat16Lanes {
  static Lanes load(const void* source, std::size_t i) {
    const __m256i wide = _mm256_cvtepu16_epi32(load_halves(source, i));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static void store(void* destination, std::size_t i, Lanes values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i nan = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    const __m256i chosen = _mm256_blendv_epi8(rounded, nan, is_nan);
    store_halves(
        destination, i,
        _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1)));
  }
};

}  // namespace
}  // namespace hvd
#endif
