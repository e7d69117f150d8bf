// SPDX-License-Identifier: Apache-2.0
// Memory in words of 32 bits, with the widest accesses that an address allows; and who works on
// what.
#pragma once

#include "device/kernels/kernel_arguments.h"
#include "kernel_language.cuh"

namespace hvd::kernels {

using Byte = unsigned char;

template <int kBytes>
struct alignas(kBytes) HVD_MAY_ALIAS Vector {
  std::uint32_t words[kBytes / 4];
};
struct HVD_MAY_ALIAS Short {
  std::uint16_t bits;
};

/// Reads kWords words from an address that is a multiple of kAlignment.
template <int kAlignment, int kWords>
HVD_DEVICE void load_words(const Byte* from, std::uint32_t (&words)[kWords]) {
  if constexpr (kAlignment >= 4) {
    constexpr int kPiece = kAlignment / 4;
    HVD_UNROLL
    for (int i = 0; i < kWords / kPiece; ++i) {
      const Vector<kAlignment> piece = reinterpret_cast<const Vector<kAlignment>*>(from)[i];
      HVD_UNROLL
      for (int j = 0; j < kPiece; ++j) words[i * kPiece + j] = piece.words[j];
    }
  } else if constexpr (kAlignment == 2) {
    const Short* const shorts = reinterpret_cast<const Short*>(from);
    HVD_UNROLL
    for (int i = 0; i < kWords; ++i) {
      words[i] = shorts[2 * i].bits | static_cast<std::uint32_t>(shorts[2 * i + 1].bits) << 16;
    }
  } else {
    HVD_UNROLL
    for (int i = 0; i < kWords; ++i) {
      words[i] = static_cast<std::uint32_t>(from[4 * i]) |
                 static_cast<std::uint32_t>(from[4 * i + 1]) << 8 |
                 static_cast<std::uint32_t>(from[4 * i + 2]) << 16 |
                 static_cast<std::uint32_t>(from[4 * i + 3]) << 24;
    }
  }
}

/// Writes kWords words at once, to an address that is a multiple of their size.
template <int kWords>
HVD_DEVICE void store_words(Byte* to, const std::uint32_t (&words)[kWords]) {
  Vector<4 * kWords> vector;
  HVD_UNROLL
  for (int i = 0; i < kWords; ++i) vector.words[i] = words[i];
  *reinterpret_cast<Vector<4 * kWords>*>(to) = vector;
}

HVD_DEVICE std::uint32_t misalignment(const void* address, std::uint32_t alignment) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address)) & (alignment - 1);
}

/// Calls run.template run<A>() with an alignment that both addresses have: kWidest, 4 or kLeast,
/// which they always have. Each is a copy of the code: what lies between is not worth one.
template <int kWidest, int kLeast, typename Run>
HVD_DEVICE void with_alignment(const void* first, const void* second, const Run& run) {
  if constexpr (kWidest > kLeast) {
    if ((misalignment(first, kWidest) | misalignment(second, kWidest)) != 0) {
      constexpr int kNext = kWidest > 4 && kLeast < 4 ? 4 : kLeast;
      with_alignment<kNext, kLeast>(first, second, run);
      return;
    }
  }
  run.template run<kWidest>();
}

/// Which range this block works on: the last one that begins at or before `place`.
HVD_DEVICE std::uint32_t find_range(const std::uint32_t (&begins)[kMaxTensors], std::uint32_t size,
                                    std::uint32_t place) {
  std::uint32_t low = 0;
  std::uint32_t high = size;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (begins[middle] <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// How many elements of a vector come before, in and after the groups that are stored at once.
struct Split {
  std::uint32_t head;
  std::uint32_t groups;
  std::uint32_t tail;
};

/// Of `count` elements that are stored at `to`, in groups of group_bytes.
HVD_DEVICE Split split_at(const void* to, std::uint32_t count, std::uint32_t element_bytes,
                          std::uint32_t group_bytes) {
  const std::uint32_t past = misalignment(to, group_bytes);
  const std::uint32_t ahead = past == 0 ? 0 : (group_bytes - past) / element_bytes;
  const std::uint32_t head = ahead < count ? ahead : count;
  const std::uint32_t per_group = group_bytes / element_bytes;
  const std::uint32_t groups = (count - head) / per_group;
  return {head, groups, count - head - groups * per_group};
}

}  // namespace hvd::kernels
