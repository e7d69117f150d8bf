// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/ending.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Ending, GivesGraceThenSigtermThenSigkill) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_TRUE(ending.rank_failed(7, start));
  EXPECT_FALSE(ending.rank_failed(9, start));
  EXPECT_EQ(ending.advance(start + seconds(9)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(10)), SIGTERM);
  EXPECT_EQ(ending.advance(start + seconds(14)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(15)), SIGKILL);
  EXPECT_TRUE(ending.next().is_forever());
  EXPECT_EQ(ending.exit_code(), 7);
}

TEST(Ending, HandsOnASignalOnceAndKillsTheSecondTime) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGINT, start), SIGINT);
  EXPECT_FALSE(ending.rank_failed(1, start));
  EXPECT_EQ(ending.told_to_end(SIGINT, start + seconds(2)), SIGKILL);
  EXPECT_EQ(ending.exit_code(), exit_code_of_signal(SIGINT));
}

TEST(Ending, TakesASignalThatIsDeliveredTwiceForOne) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGTERM, start), SIGTERM);
  EXPECT_EQ(ending.told_to_end(SIGTERM, start + std::chrono::milliseconds(900)), std::nullopt);
  EXPECT_EQ(ending.told_to_end(SIGINT, start + std::chrono::milliseconds(900)), std::nullopt);
  EXPECT_EQ(ending.told_to_end(SIGTERM, start + seconds(1)), SIGKILL);
}

TEST(Ending, CountsNoTimeInWhichTheJobWasStopped) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  ending.was_stopped(seconds(5));
  EXPECT_TRUE(ending.next().is_forever());
  EXPECT_EQ(ending.told_to_end(SIGTERM, start), SIGTERM);
  ending.was_stopped(seconds(60));
  EXPECT_EQ(ending.advance(start + seconds(69)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(70)), SIGKILL);
}

TEST(Ending, IsNotHurriedByAHangUp) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGINT, start), SIGINT);
  EXPECT_EQ(ending.told_to_end(SIGHUP, start + seconds(3)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(10)), SIGTERM);
}

TEST(Ending, IsNotHurriedByLostOutput) {
  const Clock::time_point start = Clock::now();
  Ending told(seconds(10));
  EXPECT_EQ(told.told_to_end(SIGINT, start), SIGINT);
  EXPECT_EQ(told.lost_reader(start + seconds(2)), std::nullopt);
  Ending failed(seconds(10));
  EXPECT_TRUE(failed.rank_failed(3, start));
  EXPECT_EQ(failed.lost_reader(start + seconds(2)), std::nullopt);
  Ending fresh(seconds(10));
  EXPECT_EQ(fresh.lost_reader(start), SIGTERM);
  EXPECT_EQ(fresh.exit_code(), exit_code_of_signal(SIGTERM));
}

TEST(Ending, ASignalAfterAFailureKeepsItsCode) {
  Ending ending(seconds(10));
  EXPECT_TRUE(ending.rank_failed(3, Clock::now()));
  EXPECT_EQ(ending.told_to_end(SIGTERM, Clock::now()), SIGTERM);
  EXPECT_EQ(ending.exit_code(), 3);
}

}  // namespace
}  // namespace hvd
