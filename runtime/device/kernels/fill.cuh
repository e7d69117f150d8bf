// SPDX-License-Identifier: Apache-2.0
// Memory filled with a pattern.
#pragma once

#include "device/kernels/words.cuh"

namespace hvd::kernels {

/// Byte `i` of the endless repetition of the pattern.
HVD_DEVICE Byte pattern_byte(const std::uint32_t (&pattern)[4], std::uint32_t i) {
  return static_cast<Byte>(pattern[i / 4 % 4] >> (i % 4 * 8));
}

HVD_DEVICE void fill(const FillArguments& arguments) {
  const TensorList& list = arguments.list;
  const std::uint32_t tensor = find_range(list.first_blocks, list.size, blockIdx.x);
  const std::uint32_t tile = blockIdx.x - list.first_blocks[tensor];
  const std::uint32_t count = list.counts[tensor];
  Byte* const begin = static_cast<Byte*>(list.tensors[tensor]);
  const Split split = split_at(begin, count, 1, 16);
  const std::uint32_t thread = threadIdx.x;
  if (tile == 0 && thread < split.head + split.tail) {
    const std::uint32_t at =
        thread < split.head ? thread : count - split.tail + thread - split.head;
    begin[at] = pattern_byte(arguments.pattern, at);
  }
  // Each group begins as many bytes into the pattern as the head is long.
  std::uint32_t words[4] = {};
  HVD_UNROLL
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t byte = pattern_byte(arguments.pattern, split.head + i);
    words[i / 4] |= byte << (i % 4 * 8);
  }
  const std::uint32_t first = tile * kThreads * kGroupsPerThread + threadIdx.x;
  HVD_UNROLL
  for (int i = 0; i < static_cast<int>(kGroupsPerThread); ++i) {
    const std::uint32_t group = first + i * kThreads;
    if (group < split.groups) {
      store_words(begin + split.head + std::uint64_t{group} * 16, words);
    }
  }
}

}  // namespace hvd::kernels
