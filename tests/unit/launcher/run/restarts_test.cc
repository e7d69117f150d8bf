// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/restarts.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

const Clock::duration kLong = std::chrono::hours(1);
const Clock::duration kShort = std::chrono::seconds(1);

TEST(Restarts, NoneIsSaidWhereNoneWereAskedFor) {
  Restarts restarts(0, 1);
  EXPECT_EQ(restarts.refuse(0, "a", kLong), "");
}

TEST(Restarts, EndWithTheirNumber) {
  Restarts restarts(2, 1);
  EXPECT_EQ(restarts.refuse(0, "a", kLong), std::nullopt);
  EXPECT_EQ(restarts.refuse(1, "a", kLong), std::nullopt);
  EXPECT_EQ(restarts.refuse(0, "a", kLong), "it is not started again: --restarts 2 are used up");
}

TEST(Restarts, ACrashLoopEnds) {
  Restarts restarts(100, 1);
  EXPECT_EQ(restarts.refuse(0, "a", kShort), std::nullopt);
  EXPECT_EQ(restarts.refuse(0, "a", kShort), std::nullopt);
  EXPECT_EQ(restarts.refuse(1, "a", kShort), std::nullopt) << "another place";
  EXPECT_EQ(restarts.refuse(0, "a", kShort),
            "it is not started again: 3 times in a row it has ended within 30 s");
  EXPECT_EQ(restarts.refuse(0, "a", kLong), std::nullopt) << "a spare that came there and worked";
}

TEST(Restarts, ANodeThatLosesMoreThanAllOthersIsLeftOut) {
  Restarts restarts(100, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(restarts.refuse(i, "a", kLong), std::nullopt);
  EXPECT_EQ(restarts.refuse(3, "a", kLong),
            "it is not started again: 4 of 4 losses were on a, look at it, or leave it out "
            "(--exclude=a)");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(restarts.refuse(10 + i, "b", kLong), std::nullopt);
  EXPECT_EQ(restarts.refuse(4, "a", kLong),
            "it is not started again: 5 of 9 losses were on a, look at it, or leave it out "
            "(--exclude=a)");
  EXPECT_EQ(restarts.refuse(14, "b", kLong), std::nullopt);
  EXPECT_EQ(restarts.refuse(5, "a", kLong),
            "it is not started again: 6 of 11 losses were on a, look at it, or leave it out "
            "(--exclude=a)");
}

}  // namespace
}  // namespace hvd
