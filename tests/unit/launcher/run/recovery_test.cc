// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/recovery.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace hvd {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kNoon = Clock::time_point() + std::chrono::hours(1);

Membership membership(std::uint64_t epoch, const std::vector<int>& processes) {
  Membership made{.epoch = epoch, .members = {}};
  for (const int process : processes) made.members.push_back({.process = process});
  return made;
}

/// Three ranks and a spare.
Recovery job(int min_size = 3) { return {3, min_size, {"a", "a", "b", "b"}}; }

TEST(Recovery, SaysWhoLeftAndWhoCame) {
  Recovery recovery = job();
  EXPECT_EQ(recovery.begun(membership(1, {0, 1, 2}), kNoon), "");
  EXPECT_EQ(recovery.failed(2, "signal 9 (Killed)", kNoon),
            "rank 2 on host b was lost: signal 9 (Killed); a spare takes its place");
  EXPECT_EQ(recovery.begun(membership(2, {0, 1, 3}), kNoon + milliseconds(340)),
            "membership 2: 3 ranks again, 340 ms after the loss; rank 2 is spare 3 now");
  EXPECT_EQ(recovery.name_of(3), "rank 2");
  EXPECT_EQ(recovery.process_of(2), 3);
}

TEST(Recovery, SaysWhichRankIsAnotherNow) {
  Recovery recovery = job();
  EXPECT_TRUE(recovery.failed(0, "exit code 1", kNoon));
  EXPECT_EQ(recovery.begun(membership(2, {1, 3, 2}), kNoon),
            "membership 2: 3 ranks again, 0 ms after the loss; rank 0 is what was rank 1; rank 1 "
            "is spare 3 now");
}

TEST(Recovery, GoesOnWithFewerDownToTheLeast) {
  Recovery recovery = job(2);
  EXPECT_TRUE(recovery.failed(3, "exit code 1", kNoon));
  EXPECT_EQ(recovery.failed(1, "exit code 1", kNoon),
            "rank 1 on host a was lost: exit code 1; 2 ranks go on");
  (void)recovery.begun(membership(2, {0, 2}), kNoon);
  EXPECT_FALSE(recovery.failed(0, "exit code 3", kNoon));
  EXPECT_EQ(recovery.shortage(), "1 process is left, and it needs 2 ranks");
  EXPECT_EQ(recovery.first_loss(), "rank 1 on host a was lost: exit code 1");
}

TEST(Recovery, ASpareThatEndsCostsNoRank) {
  Recovery recovery = job();
  EXPECT_EQ(recovery.failed(3, "exit code 1", kNoon), "spare 3 on host b was lost: exit code 1");
  EXPECT_EQ(recovery.first_loss(), "");
  EXPECT_FALSE(recovery.failed(0, "exit code 1", kNoon));
}

TEST(Recovery, NeedsARankThatHasTheState) {
  Recovery recovery(1, 1, {"a", "a"});
  EXPECT_FALSE(recovery.failed(0, "exit code 1", kNoon));
  EXPECT_EQ(recovery.shortage(), "no rank is left that has the state of training");
  EXPECT_TRUE(recovery.is_over());
}

TEST(Recovery, NothingFollowsTheEndOfAProgram) {
  Recovery recovery = job(1);
  recovery.finished(0);
  EXPECT_FALSE(recovery.failed(1, "exit code 1", kNoon));
  EXPECT_EQ(recovery.shortage(), "a rank has come to the end of its program already");
}

TEST(Recovery, IsOverWhenOnlySparesLive) {
  Recovery recovery = job();
  for (const int process : {0, 1}) recovery.finished(process);
  EXPECT_FALSE(recovery.is_over());
  recovery.finished(2);
  EXPECT_TRUE(recovery.is_over());
}

TEST(Recovery, EndsTheWaitForARankThatIsLostAndLives) {
  Recovery recovery = job();
  (void)recovery.begun(membership(1, {0, 1, 2}), kNoon);
  recovery.loses(0, 2, kNoon);
  recovery.loses(1, 1, kNoon);  // It gives up by itself.
  recovery.loses(1, -1, kNoon);
  EXPECT_TRUE(recovery.overdue(kNoon + Recovery::kPatience - milliseconds(1)).empty());
  EXPECT_EQ(recovery.overdue(kNoon + Recovery::kPatience), std::vector<int>{2});
  EXPECT_TRUE(recovery.next().is_forever());
}

TEST(Recovery, WhoHasComeAgainIsNotAwaited) {
  Recovery recovery = job();
  (void)recovery.begun(membership(1, {0, 1, 2}), kNoon);
  recovery.loses(0, 2, kNoon);
  (void)recovery.begun(membership(2, {0, 1, 2}), kNoon);
  EXPECT_TRUE(recovery.overdue(kNoon + Recovery::kPatience * 2).empty());
}

}  // namespace
}  // namespace hvd
