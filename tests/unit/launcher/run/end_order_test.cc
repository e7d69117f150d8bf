// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/end_order.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::milliseconds;

std::vector<int> taken(EndOrder& order, Clock::time_point now) {
  std::vector<int> ranks;
  for (const RankEnded& ended : order.take(now)) ranks.push_back(ended.index);
  return ranks;
}

TEST(EndOrder, KeepsTheOrderOfRanksThatSaidNothing) {
  EndOrder order;
  const auto now = Clock::now();
  order.ended({2, 256}, now);
  order.ended({0, 0}, now);
  EXPECT_EQ(taken(order, now), (std::vector<int>{2, 0}));
  EXPECT_TRUE(order.next().is_forever());
}

TEST(EndOrder, ARankThatLostAPeerComesAfterThatPeer) {
  EndOrder order;
  const auto now = Clock::now();
  order.loses(3, 2);
  order.ended({3, 256}, now);
  EXPECT_TRUE(taken(order, now).empty());
  EXPECT_FALSE(order.next().is_forever());
  order.loses(0, 2);
  order.ended({0, 256}, now + milliseconds(10));
  order.ended({2, 9}, now + milliseconds(20));
  EXPECT_EQ(taken(order, now + milliseconds(20)), (std::vector<int>{2, 3, 0}));
}

TEST(EndOrder, AVictimThatEndsWellNeedsNoCause) {
  EndOrder order;
  const auto now = Clock::now();
  order.loses(1, 0);
  order.ended({1, 0}, now);
  EXPECT_EQ(taken(order, now), std::vector<int>{1});
}

TEST(EndOrder, AVictimCountsAfterAWhileWhenThePeerStillRuns) {
  EndOrder order;
  const auto now = Clock::now();
  order.loses(1, 0);
  order.ended({1, 256}, now);
  EXPECT_TRUE(taken(order, now).empty());
  EXPECT_EQ(taken(order, order.next().time()), std::vector<int>{1});
}

TEST(EndOrder, ARankMayNameItself) {
  EndOrder order;
  const auto now = Clock::now();
  order.loses(1, 1);
  order.ended({1, 256}, now);
  EXPECT_EQ(taken(order, now), std::vector<int>{1});
}

TEST(EndOrder, ForgetsALossOnceTheRankHasStartedAgain) {
  EndOrder order;
  order.loses(0, 2);
  order.loses(2, 2);
  EXPECT_EQ(order.loss_of(0), 2);
  EXPECT_EQ(order.any_loss(), std::pair(0, 2));
  order.loses(0, -1);
  EXPECT_EQ(order.loss_of(0), std::nullopt);
  EXPECT_EQ(order.any_loss(), std::nullopt) << "who gives up by itself has lost nobody";
}

}  // namespace
}  // namespace hvd
