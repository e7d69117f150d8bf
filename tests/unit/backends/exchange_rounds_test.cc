// SPDX-License-Identifier: Apache-2.0
#include "backends/node/exchange_rounds.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/node/node_plane.h"

namespace hvd {
namespace {

std::vector<int> ranks(int count) {
  std::vector<int> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

/// Rounds among `size` ranks of one node.
ExchangeRounds among(int size, const std::vector<std::size_t>& bytes) {
  ExchangeRounds rounds(bytes, static_cast<std::size_t>(size), 1);
  for (const int source : ranks(size)) {
    EXPECT_TRUE(rounds.share_slot(std::vector<int>{source}, ranks(size)));
  }
  return rounds;
}

TEST(ExchangeRounds, MovesEveryByteOnceAndFitsTheSlot) {
  const int size = 5;
  const std::vector<std::vector<std::size_t>> cases = {
      std::vector<std::size_t>(25, 0),
      std::vector<std::size_t>(25, 1),
      std::vector<std::size_t>(25, NodePlane::kSlotBytes),
      {9, 0, 0, 0, 0, 1, 9, 700'001, 64, 65, 0, 0, 0, 0, 3, 5, 5, 5, 5, 5, 0, 0, 131'072, 0, 0}};
  for (const auto& bytes : cases) {
    const ExchangeRounds rounds = among(size, bytes);
    for (const int source : ranks(size)) {
      std::vector<std::size_t> moved(5);
      for (std::uint64_t round = 0; round < rounds.count(); ++round) {
        EXPECT_LE(rounds.bytes_to(round, source, ranks(size)), NodePlane::kSlotBytes);
        for (const int to : ranks(size)) {
          const auto piece = rounds.at(round, source, to);
          auto& done = moved[static_cast<std::size_t>(to)];
          if (piece.bytes > 0) {
            EXPECT_EQ(piece.offset, done);
          }
          done += piece.bytes;
        }
      }
      for (const int to : ranks(size)) {
        const std::size_t due = source == to ? 0 : bytes[static_cast<std::size_t>(source * 5 + to)];
        EXPECT_EQ(moved[static_cast<std::size_t>(to)], due);
      }
    }
  }
}

TEST(ExchangeRounds, CountsBeyondThirtyTwoBits) {
  const std::size_t huge = (std::size_t{1} << 43) + 17;
  const ExchangeRounds rounds = among(2, {0, huge, 5, 0});
  ASSERT_GT(rounds.count(), std::size_t{1} << 25);
  const auto first = rounds.at(0, 0, 1);
  EXPECT_LE(first.bytes, NodePlane::kSlotBytes);
  const auto last = rounds.at(rounds.count() - 1, 0, 1);
  EXPECT_EQ(last.offset + last.bytes, huge) << "the last round ends the stream";
  EXPECT_EQ(rounds.at(rounds.count() / 2, 0, 1).offset, rounds.count() / 2 * first.bytes);
  EXPECT_EQ(rounds.at(rounds.count() - 1, 1, 0).bytes, 0u);
}

TEST(ExchangeRounds, PacksManyPairsTightlyAndRefusesTooMany) {
  const int size = 1'000;
  ExchangeRounds rounds(std::vector<std::size_t>(1'000'000, 7), 1'000, 1);
  EXPECT_TRUE(rounds.share_slot(std::vector<int>{0}, ranks(size)));
  EXPECT_EQ(rounds.at(0, 0, 1).bytes, 7u);
  EXPECT_LE(rounds.bytes_to(0, 0, ranks(size)), NodePlane::kSlotBytes);
  EXPECT_FALSE(rounds.share_slot(ranks(size), ranks(size)));
}

}  // namespace
}  // namespace hvd
