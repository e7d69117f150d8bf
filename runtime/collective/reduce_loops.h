// SPDX-License-Identifier: Apache-2.0
// The loops of the reductions. Included once by each reduce_<isa>.cc, which is compiled for its
// instruction set: everything here has internal linkage and calls no inline function of the
// standard library, because the linker may keep the copy of a newer instruction set for all.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "collective/half_bits.h"
#include "collective/reduce_kernels.h"

// The destination may be one of the sources, at the same index: no iteration depends on another.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd {
namespace {

constexpr std::size_t kBlock = 512;  // elements whose running result stays in the first cache

template <bool kWide>
struct WrapType {
  using Type = std::uint32_t;
};
template <>
struct WrapType<true> {
  using Type = std::uint64_t;
};
/// Unsigned, at least as wide as int: arithmetic in it wraps instead of being undefined.
template <typename T>
using Wrap = typename WrapType<(sizeof(T) > 4)>::Type;

template <typename T>
constexpr bool kIsReal = false;
template <>
constexpr bool kIsReal<float> = true;
template <>
constexpr bool kIsReal<double> = true;

struct Sum {
  template <typename T>
  static T fold(T a, T b) {
    if constexpr (kIsReal<T>) {
      return a + b;
    } else {
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    }
  }
};
struct Product {
  template <typename T>
  static T fold(T a, T b) {
    if constexpr (kIsReal<T>) {
      return a * b;
    } else {
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
    }
  }
};
struct Min {
  template <typename T>
  static T fold(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};
struct Max {
  template <typename T>
  static T fold(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};

// float32 and float64: a factor of one changes no bit, so there is one loop for all scales.
template <typename T, typename Op>
void reduce_real(void* destination, const void* const* sources, std::size_t source_count,
                 std::size_t count, const ReduceFactors& factors) {
  const T pre = static_cast<T>(factors.prescale);
  const T post = static_cast<T>(factors.postscale / factors.divisor);
  T* out = static_cast<T*>(destination);
  const T* first = static_cast<const T*>(sources[0]);
  if (source_count == 1) {
    HVD_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i) out[i] = first[i] * pre * post;
    return;
  }
  if (source_count == 2) {
    const T* second = static_cast<const T*>(sources[1]);
    HVD_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = Op::template fold<T>(first[i] * pre, second[i] * pre) * post;
    }
    return;
  }
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    T folded[kBlock];
    for (std::size_t i = 0; i < n; ++i) folded[i] = first[begin + i] * pre;
    for (std::size_t s = 1; s + 1 < source_count; ++s) {
      const T* next = static_cast<const T*>(sources[s]) + begin;
      for (std::size_t i = 0; i < n; ++i) {
        folded[i] = Op::template fold<T>(folded[i], next[i] * pre);
      }
    }
    const T* last = static_cast<const T*>(sources[source_count - 1]) + begin;
    HVD_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) {
      out[begin + i] = Op::template fold<T>(folded[i], last[i] * pre) * post;
    }
  }
}

/// Truncates toward zero and clamps to T; NaN becomes 0.
template <typename T>
T truncate(double value) {
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr int kValueBits = static_cast<int>(sizeof(T) * 8) - (kSigned ? 1 : 0);
  constexpr double kEnd = 2.0 * static_cast<double>(std::uint64_t{1} << (kValueBits - 1));
  constexpr T kMost = static_cast<T>(~std::uint64_t{0} >> (64 - kValueBits));
  constexpr T kLeast = kSigned ? static_cast<T>(-kMost - 1) : static_cast<T>(0);
  if (value != value) return 0;
  if (value >= kEnd) return kMost;
  if (value <= (kSigned ? -kEnd : 0.0)) return kLeast;
  return static_cast<T>(value);
}

template <typename T>
T finish_integer(T value, const ReduceFactors& factors) {
  // Exact where nothing but a division is asked for: int64 has more digits than a double.
  if (factors.postscale == 1.0) {
    if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
      return static_cast<T>(value / static_cast<std::int64_t>(factors.divisor));
    } else {
      return static_cast<T>(value / static_cast<std::uint64_t>(factors.divisor));
    }
  }
  return truncate<T>(static_cast<double>(value) * factors.postscale / factors.divisor);
}

template <typename T>
void load_integers(const T* source, T* values, std::size_t n, double prescale) {
  if (prescale == 1.0) {
    for (std::size_t i = 0; i < n; ++i) values[i] = source[i];
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = truncate<T>(static_cast<double>(source[i]) * prescale);
  }
}

template <typename T, typename Op>
void reduce_integers(void* destination, const void* const* sources, std::size_t source_count,
                     std::size_t count, const ReduceFactors& factors) {
  T* out = static_cast<T*>(destination);
  const bool finish = factors.postscale != 1.0 || factors.divisor != 1;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    T folded[kBlock];
    T loaded[kBlock];
    load_integers(static_cast<const T*>(sources[0]) + begin, folded, n, factors.prescale);
    for (std::size_t s = 1; s < source_count; ++s) {
      load_integers(static_cast<const T*>(sources[s]) + begin, loaded, n, factors.prescale);
      for (std::size_t i = 0; i < n; ++i) folded[i] = Op::template fold<T>(folded[i], loaded[i]);
    }
    if (finish) {
      for (std::size_t i = 0; i < n; ++i) folded[i] = finish_integer(folded[i], factors);
    }
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = folded[i];
  }
}

// bool: any non-zero byte is true; kAny is sum and max, else product and min.
template <bool kAny>
void reduce_bools(void* destination, const void* const* sources, std::size_t source_count,
                  std::size_t count, const ReduceFactors& /*factors*/) {
  auto* out = static_cast<std::uint8_t*>(destination);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    std::uint8_t folded[kBlock];
    for (std::size_t i = 0; i < n; ++i) folded[i] = kAny ? 0 : 1;
    for (std::size_t s = 0; s < source_count; ++s) {
      const auto* next = static_cast<const std::uint8_t*>(sources[s]) + begin;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint8_t truth = next[i] != 0 ? 1 : 0;
        folded[i] = kAny ? (folded[i] | truth) : (folded[i] & truth);
      }
    }
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = folded[i];
  }
}

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

template <typename Format, bool kPartials>
void load_halves(const void* source, std::size_t begin, float* values, std::size_t n, float pre) {
  if constexpr (kPartials) {
    const float* partials = static_cast<const float*>(source) + begin;
    for (std::size_t i = 0; i < n; ++i) values[i] = partials[i];
  } else {
    Format::widen(static_cast<const std::uint16_t*>(source) + begin, values, n);
  }
  for (std::size_t i = 0; i < n; ++i) values[i] *= pre;
}

template <typename Format, typename Op, bool kPartialsIn, bool kPartialsOut>
void reduce_halves(void* destination, const void* const* sources, std::size_t source_count,
                   std::size_t count, const ReduceFactors& factors) {
  const float pre = static_cast<float>(factors.prescale);
  const float post = static_cast<float>(factors.postscale / factors.divisor);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    float folded[kBlock];
    float loaded[kBlock];
    load_halves<Format, kPartialsIn>(sources[0], begin, folded, n, pre);
    for (std::size_t s = 1; s < source_count; ++s) {
      load_halves<Format, kPartialsIn>(sources[s], begin, loaded, n, pre);
      for (std::size_t i = 0; i < n; ++i) {
        folded[i] = Op::template fold<float>(folded[i], loaded[i]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) folded[i] *= post;
    if constexpr (kPartialsOut) {
      float* out = static_cast<float*>(destination) + begin;
      for (std::size_t i = 0; i < n; ++i) out[i] = folded[i];
    } else {
      Format::narrow(folded, static_cast<std::uint16_t*>(destination) + begin, n);
    }
  }
}

template <typename Format, typename Op>
ReduceKernel find_half(ReduceStage stage) {
  switch (stage) {
    case ReduceStage::kWhole:
      return &reduce_halves<Format, Op, false, false>;
    case ReduceStage::kPartial:
      return &reduce_halves<Format, Op, false, true>;
    case ReduceStage::kCombine:
      return &reduce_halves<Format, Op, true, true>;
    case ReduceStage::kFinish:
      return &reduce_halves<Format, Op, true, false>;
  }
  return nullptr;
}

template <typename Op, bool kAny>
ReduceKernel find_for_type(DataType dtype, ReduceStage stage) {
  switch (dtype) {
    case DataType::kUint8:
      return &reduce_integers<std::uint8_t, Op>;
    case DataType::kInt8:
      return &reduce_integers<std::int8_t, Op>;
    case DataType::kUint16:
      return &reduce_integers<std::uint16_t, Op>;
    case DataType::kInt16:
      return &reduce_integers<std::int16_t, Op>;
    case DataType::kInt32:
      return &reduce_integers<std::int32_t, Op>;
    case DataType::kInt64:
      return &reduce_integers<std::int64_t, Op>;
    case DataType::kUint32:
      return &reduce_integers<std::uint32_t, Op>;
    case DataType::kUint64:
      return &reduce_integers<std::uint64_t, Op>;
    case DataType::kFloat32:
      return &reduce_real<float, Op>;
    case DataType::kFloat64:
      return &reduce_real<double, Op>;
    case DataType::kBool:
      return &reduce_bools<kAny>;
    case DataType::kFloat16:
      return find_half<Float16, Op>(stage);
    case DataType::kBfloat16:
      return find_half<Bfloat16, Op>(stage);
    case DataType::kComplex64:
    case DataType::kComplex128:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2:
      return nullptr;
  }
  return nullptr;
}

ReduceKernel find_kernel(DataType dtype, ReduceOp op, ReduceStage stage) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return find_for_type<Sum, true>(dtype, stage);
    case ReduceOp::kMin:
      return find_for_type<Min, false>(dtype, stage);
    case ReduceOp::kMax:
      return find_for_type<Max, true>(dtype, stage);
    case ReduceOp::kProduct:
      return find_for_type<Product, false>(dtype, stage);
    case ReduceOp::kAdasum:
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      return nullptr;
  }
  return nullptr;
}

}  // namespace
}  // namespace hvd
