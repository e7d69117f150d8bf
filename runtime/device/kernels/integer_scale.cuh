// SPDX-License-Identifier: Apache-2.0
// Integers scaled and averaged in place.
#pragma once

#include "device/kernels/words.cuh"

namespace hvd::kernels {

/// Truncates toward zero and clamps to T; NaN becomes 0. As collective/reduce_loops.h.
template <typename T>
HVD_DEVICE T truncate(double value) {
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

/// What T's values are divided in: 64 bits take several times as long, so only where they must.
template <typename T>
struct Dividend {
  using Type = std::int32_t;
};
template <>
struct Dividend<std::uint32_t> {
  using Type = std::uint32_t;
};
template <>
struct Dividend<std::int64_t> {
  using Type = std::int64_t;
};
template <>
struct Dividend<std::uint64_t> {
  using Type = std::uint64_t;
};

template <typename T>
struct IntegerScale {
  double scale;
  std::int64_t divisor;

  HVD_DEVICE T number(T value) const {
    using Wide = typename Dividend<T>::Type;
    if (scale == 1.0) return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    return truncate<T>(static_cast<double>(value) * scale / static_cast<double>(divisor));
  }
};

template <typename T>
HVD_DEVICE T lane(const std::uint32_t* words, int i) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(static_cast<std::uint64_t>(words[2 * i + 1]) << 32 | words[2 * i]);
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    constexpr int kBits = 8 * sizeof(T);
    return static_cast<T>(words[i / kPerWord] >> (i % kPerWord * kBits));
  }
}

/// In the order of i.
template <typename T>
HVD_DEVICE void set_lane(T value, std::uint32_t* words, int i) {
  if constexpr (sizeof(T) == 8) {
    words[2 * i] = static_cast<std::uint32_t>(value);
    words[2 * i + 1] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    constexpr int kBits = 8 * sizeof(T);
    constexpr std::uint32_t kMask = 0xffffffffU >> (32 - kBits);
    const std::uint32_t bits = (static_cast<std::uint32_t>(value) & kMask)
                               << (i % kPerWord * kBits);
    words[i / kPerWord] = i % kPerWord == 0 ? bits : words[i / kPerWord] | bits;
  }
}

template <typename T>
struct HVD_MAY_ALIAS Integer {
  T value;
};

/// Word by word: averages of integers are rare, and code is not free.
template <typename T>
HVD_DEVICE void scale_integers(const IntegerScaleArguments& arguments) {
  constexpr int kWords = sizeof(T) == 8 ? 2 : 1;
  constexpr int kPerStep = 4 * kWords / sizeof(T);
  constexpr std::uint32_t kSteps = kGroupsPerThread * kGroupBytes / (4 * kWords);
  const TensorList& list = arguments.list;
  const std::uint32_t tensor = find_range(list.first_blocks, list.size, blockIdx.x);
  const std::uint32_t tile = blockIdx.x - list.first_blocks[tensor];
  const std::uint32_t count = list.counts[tensor];
  Byte* const begin = static_cast<Byte*>(list.tensors[tensor]);
  const IntegerScale<T> scale = {arguments.scale, arguments.divisor};
  const Split split = split_at(begin, count, sizeof(T), 4 * kWords);
  if (tile == 0) {
    auto* const elements = reinterpret_cast<Integer<T>*>(begin);
    const std::uint32_t i = threadIdx.x;
    const std::uint32_t at = i < split.head ? i : count - split.tail + i - split.head;
    if (i < split.head + split.tail) elements[at].value = scale.number(elements[at].value);
  }
  const std::uint32_t first = tile * kThreads * kSteps + threadIdx.x;
  HVD_NO_UNROLL
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    const std::uint32_t step = first + i * kThreads;
    if (step >= split.groups) return;
    Byte* const at = begin + split.head * sizeof(T) + std::uint64_t{step} * (4 * kWords);
    std::uint32_t words[kWords];
    std::uint32_t scaled[kWords];
    load_words<4 * kWords>(at, words);
    HVD_UNROLL
    for (int j = 0; j < kPerStep; ++j) set_lane<T>(scale.number(lane<T>(words, j)), scaled, j);
    store_words(at, scaled);
  }
}

}  // namespace hvd::kernels
