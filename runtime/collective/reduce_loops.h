// SPDX-License-Identifier: Apache-2.0
// The loops of the reductions. Included once by each reduce_<isa>.cc, which is compiled for its
// instruction set: everything here has internal linkage and calls no inline function of the
// standard library, because the linker may keep the copy of a newer instruction set for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collective/half_formats.h"
#include "collective/reduce_folds.h"
#include "collective/reduce_kernels.h"

namespace hvd {
namespace {

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

// A product of complex numbers by the schoolbook formula; sums are sums of reals.
template <typename T>
void multiply_complex(void* destination, const void* const* sources, std::size_t source_count,
                      std::size_t count, const ReduceFactors& factors) {
  const T pre = static_cast<T>(factors.prescale);
  const T post = static_cast<T>(factors.postscale / factors.divisor);
  T* out = static_cast<T*>(destination);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    T real[kBlock];
    T imaginary[kBlock];
    const T* first = static_cast<const T*>(sources[0]) + 2 * begin;
    for (std::size_t i = 0; i < n; ++i) {
      real[i] = first[2 * i] * pre;
      imaginary[i] = first[2 * i + 1] * pre;
    }
    for (std::size_t s = 1; s < source_count; ++s) {
      const T* next = static_cast<const T*>(sources[s]) + 2 * begin;
      for (std::size_t i = 0; i < n; ++i) {
        const T next_real = next[2 * i] * pre;
        const T next_imaginary = next[2 * i + 1] * pre;
        const T product = real[i] * next_real - imaginary[i] * next_imaginary;
        imaginary[i] = real[i] * next_imaginary + imaginary[i] * next_real;
        real[i] = product;
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[2 * (begin + i)] = real[i] * post;
      out[2 * (begin + i) + 1] = imaginary[i] * post;
    }
  }
}

template <typename T>
void add_complex(void* destination, const void* const* sources, std::size_t source_count,
                 std::size_t count, const ReduceFactors& factors) {
  reduce_real<T, Sum>(destination, sources, source_count, 2 * count, factors);
}

// bool: any non-zero byte is true, and the result is 0 or 1.
template <typename Op>
void reduce_bools(void* destination, const void* const* sources, std::size_t source_count,
                  std::size_t count, const ReduceFactors& /*factors*/) {
  auto* out = static_cast<std::uint8_t*>(destination);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    std::uint8_t folded[kBlock];
    const auto* first = static_cast<const std::uint8_t*>(sources[0]) + begin;
    for (std::size_t i = 0; i < n; ++i) folded[i] = first[i] != 0 ? 1 : 0;
    for (std::size_t s = 1; s < source_count; ++s) {
      const auto* next = static_cast<const std::uint8_t*>(sources[s]) + begin;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint8_t truth = next[i] != 0 ? 1 : 0;
        folded[i] = Op::template fold<std::uint8_t>(folded[i], truth);
      }
    }
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = folded[i];
  }
}

template <typename Format, bool kPartials>
void load_scaled(const void* source, std::size_t begin, float* values, std::size_t n, float pre) {
  if constexpr (kPartials) {
    const float* partials = static_cast<const float*>(source) + begin;
    for (std::size_t i = 0; i < n; ++i) values[i] = partials[i];
  } else {
    Format::widen(static_cast<const typename Format::Stored*>(source) + begin, values, n);
  }
  for (std::size_t i = 0; i < n; ++i) values[i] *= pre;
}

/// Reduces whole groups of eight in one pass, as far as the instruction set goes; returns how many
/// elements are done.
template <typename Format, typename Op, bool kPartialsIn, bool kPartialsOut>
std::size_t reduce_lanes([[maybe_unused]] void* destination,
                         [[maybe_unused]] const void* const* sources,
                         [[maybe_unused]] std::size_t source_count,
                         [[maybe_unused]] std::size_t count,
                         [[maybe_unused]] const ReduceFactors& factors) {
  std::size_t done = 0;
#if HVD_HAS_LANES
  using In = std::conditional_t<kPartialsIn, Float32Lanes, typename Format::Eight>;
  using Out = std::conditional_t<kPartialsOut, Float32Lanes, typename Format::Eight>;
  const float pre = static_cast<float>(factors.prescale);
  const float post = static_cast<float>(factors.postscale / factors.divisor);
  const void* first = sources[0];
  if (source_count == 2) {
    const void* second = sources[1];
    for (; done + kLanes <= count; done += kLanes) {
      const Lanes a = In::load(first, done) * pre;
      const Lanes b = In::load(second, done) * pre;
      Out::store(destination, done, Op::template fold<Lanes>(a, b) * post);
    }
    return done;
  }
  for (; done + kLanes <= count; done += kLanes) {
    Lanes folded = In::load(first, done) * pre;
    for (std::size_t s = 1; s < source_count; ++s) {
      folded = Op::template fold<Lanes>(folded, In::load(sources[s], done) * pre);
    }
    Out::store(destination, done, folded * post);
  }
#endif
  return done;
}

template <typename Format, typename Op, bool kPartialsIn, bool kPartialsOut>
void reduce_narrow(void* destination, const void* const* sources, std::size_t source_count,
                   std::size_t count, const ReduceFactors& factors) {
  const float pre = static_cast<float>(factors.prescale);
  const float post = static_cast<float>(factors.postscale / factors.divisor);
  std::size_t done = 0;
  if constexpr (Format::kHasEight) {
    done = reduce_lanes<Format, Op, kPartialsIn, kPartialsOut>(destination, sources, source_count,
                                                               count, factors);
  }
  for (std::size_t begin = done; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    float folded[kBlock];
    float loaded[kBlock];
    load_scaled<Format, kPartialsIn>(sources[0], begin, folded, n, pre);
    for (std::size_t s = 1; s < source_count; ++s) {
      load_scaled<Format, kPartialsIn>(sources[s], begin, loaded, n, pre);
      for (std::size_t i = 0; i < n; ++i) {
        folded[i] = Op::template fold<float>(folded[i], loaded[i]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) folded[i] *= post;
    if constexpr (kPartialsOut) {
      float* out = static_cast<float*>(destination) + begin;
      for (std::size_t i = 0; i < n; ++i) out[i] = folded[i];
    } else {
      Format::narrow(folded, static_cast<typename Format::Stored*>(destination) + begin, n);
    }
  }
}

template <typename Format, typename Op>
ReduceKernel find_narrow(ReduceStage stage) {
  switch (stage) {
    case ReduceStage::kWhole:
      return &reduce_narrow<Format, Op, false, false>;
    case ReduceStage::kPartial:
      return &reduce_narrow<Format, Op, false, true>;
    case ReduceStage::kCombine:
      return &reduce_narrow<Format, Op, true, true>;
    case ReduceStage::kFinish:
      return &reduce_narrow<Format, Op, true, false>;
  }
  return nullptr;
}

template <typename Op>
ReduceKernel find_integers(DataType dtype) {
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
    default:
      return nullptr;
  }
}

/// Integers and real numbers.
template <typename Op>
ReduceKernel find_numbers(DataType dtype, ReduceStage stage) {
  switch (dtype) {
    case DataType::kFloat32:
      return &reduce_real<float, Op>;
    case DataType::kFloat64:
      return &reduce_real<double, Op>;
    case DataType::kFloat16:
      return find_narrow<Float16, Op>(stage);
    case DataType::kBfloat16:
      return find_narrow<Bfloat16, Op>(stage);
    case DataType::kFloat8E4m3:
      return find_narrow<Float8<Float8E4m3>, Op>(stage);
    case DataType::kFloat8E5m2:
      return find_narrow<Float8<Float8E5m2>, Op>(stage);
    default:
      return find_integers<Op>(dtype);
  }
}

ReduceKernel find_bools(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return &reduce_bools<BitOr>;
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return &reduce_bools<BitAnd>;
    case ReduceOp::kBitXor:
      return &reduce_bools<BitXor>;
    default:
      return nullptr;
  }
}

template <typename T>
ReduceKernel find_complex(ReduceOp op) {
  if (op == ReduceOp::kSum) return &add_complex<T>;
  return op == ReduceOp::kProduct ? &multiply_complex<T> : nullptr;
}

ReduceKernel find_kernel(DataType dtype, ReduceOp op, ReduceStage stage) {
  if (dtype == DataType::kBool) return find_bools(op);
  if (dtype == DataType::kComplex64) return find_complex<float>(op);
  if (dtype == DataType::kComplex128) return find_complex<double>(op);
  switch (op) {
    case ReduceOp::kSum:
      return find_numbers<Sum>(dtype, stage);
    case ReduceOp::kMin:
      return find_numbers<Min>(dtype, stage);
    case ReduceOp::kMax:
      return find_numbers<Max>(dtype, stage);
    case ReduceOp::kProduct:
      return find_numbers<Product>(dtype, stage);
    case ReduceOp::kBitAnd:
      return find_integers<BitAnd>(dtype);
    case ReduceOp::kBitOr:
      return find_integers<BitOr>(dtype);
    case ReduceOp::kBitXor:
      return find_integers<BitXor>(dtype);
    case ReduceOp::kAverage:  // a sum with a divisor
    case ReduceOp::kAdasum:
      return nullptr;
  }
  return nullptr;
}

}  // namespace
}  // namespace hvd
