// SPDX-License-Identifier: Apache-2.0
// Between tensors and buckets: copies, casts and scales.
#pragma once

#include "device/kernels/formats.cuh"

namespace hvd::kernels {

template <bool kDouble>
struct Real {
  using Type = float;
};
template <>
struct Real<true> {
  using Type = double;
};

template <typename From, typename To>
struct Cast {
  static constexpr int kWider = From::kBytes > To::kBytes ? From::kBytes : To::kBytes;
  static constexpr int kGroup = static_cast<int>(kGroupBytes) / kWider;
  static constexpr int kFromBytes = kGroup * From::kBytes;
  static constexpr int kToBytes = kGroup * To::kBytes;
  using Factor = typename Real<kWider == 8>::Type;
  using Result = typename To::Number;

  Factor factor;

  HVD_DEVICE Result number(typename From::Number value) const {
    return static_cast<Result>(static_cast<Factor>(value) * factor);
  }
  HVD_DEVICE void element(Byte* to, const Byte* from) const {
    To::store(to, number(From::load(from)));
  }
  HVD_DEVICE void group(Byte* to, const std::uint32_t (&words)[kFromBytes / 4]) const {
    std::uint32_t out[kToBytes / 4];
    HVD_UNROLL
    for (int i = 0; i < kGroup; ++i) To::encode(number(From::decode(words, i)), out, i);
    store_words(to, out);
  }
};

template <>
struct Cast<Raw, Raw> {
  static constexpr int kGroup = 16;
  static constexpr int kFromBytes = 16;
  static constexpr int kToBytes = 16;
  using Factor = float;

  Factor factor;

  HVD_DEVICE void element(Byte* to, const Byte* from) const { *to = *from; }
  HVD_DEVICE void group(Byte* to, const std::uint32_t (&words)[4]) const { store_words(to, words); }
};

/// The groups of one thread: all loads, then all stores, so that the loads are under way together.
template <typename From, typename To>
struct TransferGroups {
  using Casting = Cast<From, To>;

  Byte* to;
  const Byte* from;
  Casting cast;
  std::uint32_t first;   ///< The first group of this thread; the others follow kThreads apart.
  std::uint32_t groups;  ///< Of the whole tensor.

  template <int kAlignment>
  HVD_DEVICE void run() const {
    if (first >= groups) return;
    std::uint32_t words[kGroupsPerThread][Casting::kFromBytes / 4];
    HVD_UNROLL
    for (int i = 0; i < static_cast<int>(kGroupsPerThread); ++i) {
      // Beyond the end the first group is read again: a branch would part the loads.
      const std::uint32_t group = first + i * kThreads;
      const std::uint64_t at = group < groups ? group : first;
      load_words<kAlignment>(from + at * Casting::kFromBytes, words[i]);
    }
    HVD_UNROLL
    for (int i = 0; i < static_cast<int>(kGroupsPerThread); ++i) {
      const std::uint32_t group = first + i * kThreads;
      if (group < groups) cast.group(to + std::uint64_t{group} * Casting::kToBytes, words[i]);
    }
  }
};

/// One tile of a tensor. Stores are aligned, whatever precedes that is the head; loads are as wide
/// as the source then allows.
template <typename From, typename To>
HVD_DEVICE void transfer_tile(Byte* to, const Byte* from, std::uint32_t count, std::uint32_t tile,
                              double scale) {
  using Casting = Cast<From, To>;
  const Casting cast = {static_cast<typename Casting::Factor>(scale)};
  const Split split = split_at(to, count, To::kBytes, Casting::kToBytes);
  const std::uint32_t i = threadIdx.x;
  if (tile == 0 && i < split.head + split.tail) {
    const std::uint64_t at = i < split.head ? i : count - split.tail + i - split.head;
    cast.element(to + at * To::kBytes, from + at * From::kBytes);
  }
  const Byte* const source = from + split.head * From::kBytes;
  constexpr int kWidest = Casting::kFromBytes;
  with_alignment<kWidest, From::kBytes>(
      source, nullptr,
      TransferGroups<From, To>{to + split.head * To::kBytes, source, cast,
                               tile * kThreads * kGroupsPerThread + threadIdx.x, split.groups});
}

template <typename From, typename To>
HVD_DEVICE void transfer(const PackArguments& arguments) {
  const TensorList& list = arguments.list;
  const std::uint32_t i = find_range(list.first_blocks, list.size, blockIdx.x);
  Byte* const tensor = static_cast<Byte*>(list.tensors[i]);
  Byte* const slot = arguments.direction == Direction::kInPlace
                         ? tensor
                         : static_cast<Byte*>(arguments.bucket) + list.offsets[i];
  const bool out = arguments.direction == Direction::kUnpack;
  transfer_tile<From, To>(out ? tensor : slot, out ? slot : tensor, list.counts[i],
                          blockIdx.x - list.first_blocks[i], arguments.scale);
}

}  // namespace hvd::kernels
