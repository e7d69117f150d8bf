// SPDX-License-Identifier: Apache-2.0
#include "optim/digest.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace hvd {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
// A step depends on the last one of its lane for five cycles: eight lanes keep the multiplier busy.
constexpr std::size_t kLanes = 8;
// Odd, so that they have inverses mod 2^64.
constexpr std::uint64_t kWordFactor = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kLaneFactor = 0x9e3779b185ebca87;

using Lanes = std::array<std::uint64_t, kLanes>;

/// The round of xxHash64: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
std::uint64_t step(std::uint64_t lane, std::uint64_t word) {
  // A product moves differences up only, and leaves that of a sign where it is: the rotation brings
  // them down, between two products, or the signs of two words would make up for each other.
  return std::rotl(lane + word * kWordFactor, 31) * kLaneFactor;
}

std::uint64_t word_at(const std::byte* place) {
  std::uint64_t word = 0;
  std::memcpy(&word, place, kWord);
  return word;
}

template <std::size_t... kLane>
void add_block(Lanes& lanes, const std::byte* block, std::index_sequence<kLane...> /*unused*/) {
  ((lanes[kLane] = step(lanes[kLane], word_at(block + kLane * kWord))), ...);
}

/// MurmurHash3's finalizer, a bijection: https://github.com/aappleby/smhasher/wiki/MurmurHash3.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccd;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53;
  return value ^ (value >> 33);
}

}  // namespace

std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t seed) {
  constexpr std::size_t kBlock = kLanes * kWord;
  Lanes lanes{};
  const std::byte* place = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kBlock; left -= kBlock, place += kBlock) {
    add_block(lanes, place, std::make_index_sequence<kLanes>());
  }
  std::size_t lane = 0;
  for (; left >= kWord; left -= kWord, place += kWord, ++lane) {
    lanes[lane] = step(lanes[lane], word_at(place));
  }
  if (left > 0) {
    std::uint64_t last = 0;  // The length below tells the zeros after the end from zeros before it.
    std::memcpy(&last, place, left);
    lanes[lane] = step(lanes[lane], last);
  }
  std::uint64_t result = step(mixed(seed), bytes.size());
  for (const std::uint64_t each : lanes) result = step(result, each);
  return mixed(result);
}

}  // namespace hvd
