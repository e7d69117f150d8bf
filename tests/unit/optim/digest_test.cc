// SPDX-License-Identifier: Apache-2.0
#include "optim/digest.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace hvd {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(generator());
  return bytes;
}

TEST(Digest, TellsAllFlippedBitsApart) {
  for (const std::size_t count : {1, 3, 8, 9, 63, 64, 65, 136, 1001}) {
    std::vector<std::byte> bytes = random_bytes(count, count);
    std::set<std::uint64_t> seen{digest(bytes, 7)};
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      const auto mask = static_cast<std::byte>(1u << (bit % 8));
      bytes[bit / 8] ^= mask;
      seen.insert(digest(bytes, 7));
      bytes[bit / 8] ^= mask;
    }
    EXPECT_EQ(seen.size(), 8 * count + 1) << count << " bytes";
  }
}

TEST(Digest, ChangesWithTwoSignsInOneLane) {
  // A sum of products loses these: the highest bit of two words.
  std::vector<std::byte> bytes = random_bytes(4096, 1);
  const std::uint64_t before = digest(bytes, 0);
  for (const std::size_t word : {0, 8, 16, 24}) bytes[word * 8 + 7] ^= std::byte{0x80};
  EXPECT_NE(digest(bytes, 0), before);
}

TEST(Digest, ChangesWithThePlace) {
  std::vector<std::byte> bytes = random_bytes(1024, 2);
  std::set<std::uint64_t> seen{digest(bytes, 0)};
  for (std::size_t place = 1; place < bytes.size() / 8; ++place) {
    std::vector<std::byte> swapped = bytes;
    for (std::size_t i = 0; i < 8; ++i) std::swap(swapped[i], swapped[place * 8 + i]);
    EXPECT_TRUE(seen.insert(digest(swapped, 0)).second) << place;
  }
}

TEST(Digest, ChangesWithTheLengthOfZeros) {
  const std::vector<std::byte> zeros(200);
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count <= zeros.size(); ++count) {
    EXPECT_TRUE(seen.insert(digest(std::span(zeros).first(count), 0)).second) << count;
  }
}

TEST(Digest, ChangesWithTheSeed) {
  const std::vector<std::byte> bytes = random_bytes(100, 3);
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) seen.insert(digest(bytes, seed));
  for (int bit = 0; bit < 64; ++bit) seen.insert(digest(bytes, ~(std::uint64_t{1} << bit)));
  EXPECT_EQ(seen.size(), 1064u);
}

TEST(Digest, IsTheSameWhereverTheMemoryLies) {
  const std::vector<std::byte> bytes = random_bytes(555, 4);
  const std::uint64_t wanted = digest(bytes, 5);
  for (std::size_t offset = 1; offset < 9; ++offset) {
    std::vector<std::byte> moved(offset);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    EXPECT_EQ(digest(std::span(moved).subspan(offset), 5), wanted) << offset;
  }
}

}  // namespace
}  // namespace hvd
