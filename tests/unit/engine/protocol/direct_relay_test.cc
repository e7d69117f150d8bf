// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/direct_relay.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

namespace hvd {
namespace {

struct alignas(64) Line {
  std::array<std::byte, 64> bytes;
};

/// A node's memory for three ranks.
class Node {
 public:
  Node() : lines_(DirectRounds::memory_bytes(3) / sizeof(Line) + 1) {}
  DirectRounds rounds(int rank) {
    return {{reinterpret_cast<std::byte*>(lines_.data()), lines_.size() * sizeof(Line)},
            rank,
            3,
            nullptr};
  }

 private:
  std::vector<Line> lines_;
};

/// Offers one byte.
void offer(DirectRounds& rounds, std::uint32_t key, char byte) {
  ASSERT_TRUE(rounds.may_offer());
  std::memcpy(rounds.my_place(), &byte, 1);
  rounds.offer({.key = key, .position = 7, .bytes = 1});
}

Bytes byte(char value) { return {static_cast<std::byte>(value)}; }

TEST(DirectRelay, CarriesARoundBetweenNodes) {
  Node left;
  Node right;
  DirectRounds zero = left.rounds(0);
  DirectRounds one = left.rounds(1);
  DirectRounds two = right.rounds(2);
  DirectRelay to_right(zero, {0, 1});
  DirectRelay to_left(two, {2});
  EXPECT_TRUE(to_right.take_news().empty());
  for (int use = 0; use < 5; ++use) {
    offer(zero, 3, 'a');
    offer(one, 3, 'b');
    const auto news = to_right.take_news();
    ASSERT_EQ(news.size(), 2U);
    EXPECT_TRUE(to_right.take_news().empty()) << "each once";
    for (const ControlMessage& message : news) {
      EXPECT_TRUE(to_left.take(std::get<Brought>(message)));
    }
    EXPECT_TRUE(two.may_offer());
    offer(two, 3, 'c');
    EXPECT_EQ(zero.judge(), DirectRounds::Verdict::kOpen);
    const auto answer = to_left.take_news();
    ASSERT_EQ(answer.size(), 1U) << "what came from the other node does not go back";
    EXPECT_TRUE(to_right.take(std::get<Brought>(answer.front())));
    for (DirectRounds* rounds : {&zero, &one, &two}) {
      ASSERT_EQ(rounds->judge(), DirectRounds::Verdict::kAgreed);
      EXPECT_EQ(std::memcmp(rounds->place_of(0), "a", 1), 0);
      EXPECT_EQ(std::memcmp(rounds->place_of(1), "b", 1), 0);
      EXPECT_EQ(std::memcmp(rounds->place_of(2), "c", 1), 0);
      rounds->end_offer();
    }
  }
}

TEST(DirectRelay, TellsWhatIsWantedBackAndWhoHasStopped) {
  Node left;
  Node right;
  DirectRounds zero = left.rounds(0);
  DirectRounds two = right.rounds(2);
  DirectRelay to_right(zero, {0, 1});
  DirectRelay to_left(two, {2});
  offer(zero, 3, 'a');
  zero.want_back();
  for (const ControlMessage& message : to_right.take_news()) {
    if (const auto* brought = std::get_if<Brought>(&message)) {
      EXPECT_TRUE(to_left.take(*brought));
      EXPECT_FALSE(two.answer([](const DirectRounds::Offer&) { return false; }));
    } else {
      EXPECT_TRUE(to_left.take(std::get<WantedBack>(message)));
    }
  }
  EXPECT_TRUE(two.answer([](const DirectRounds::Offer&) { return false; }));
  two.stop();
  const auto news = to_left.take_news();
  ASSERT_EQ(news.size(), 2U);
  EXPECT_TRUE(to_right.take(std::get<Brought>(news.front()))) << "what was written comes first";
  EXPECT_EQ(zero.judge(), DirectRounds::Verdict::kVoid);
  EXPECT_TRUE(to_right.take(std::get<WantedBack>(news.back())));
  zero.end_offer();
  EXPECT_FALSE(zero.may_offer()) << "nobody may any more";
}

TEST(DirectRelay, TakesNothingThatNoRankOfAnotherNodeWrites) {
  Node node;
  DirectRounds zero = node.rounds(0);
  DirectRelay relay(zero, {0, 1});
  EXPECT_FALSE(relay.take(Brought{1, 1, 3, 0, byte('x')})) << "of this node";
  EXPECT_FALSE(relay.take(Brought{3, 1, 3, 0, byte('x')})) << "there are three";
  EXPECT_FALSE(relay.take(Brought{2, 0, 3, 0, byte('x')})) << "rounds count from 1";
  EXPECT_FALSE(relay.take(Brought{2, 3, 3, 0, byte('x')})) << "before the first";
  EXPECT_FALSE(relay.take(Brought{2, 1, 3, 0, Bytes(DirectRounds::kRoom + 1)})) << "too long";
  EXPECT_TRUE(relay.take(Brought{2, 1, 3, 0, Bytes(DirectRounds::kRoom)}));
  EXPECT_FALSE(relay.take(Brought{2, 1, 3, 0, byte('x')})) << "once more";
  EXPECT_TRUE(relay.take(Brought{2, 2, 3, 0, {}}));
  EXPECT_TRUE(relay.take(Brought{2, 3, 3, 0, byte('x')}));
  EXPECT_FALSE(relay.take(WantedBack{1, 1})) << "of this node";
  EXPECT_FALSE(relay.take(WantedBack{3, 1})) << "there are three";
  EXPECT_TRUE(relay.take(WantedBack{2, 1}));
}

}  // namespace
}  // namespace hvd
