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
Recovery job(int min_size = 3) {
  return Recovery({.size = 3, .min_size = min_size, .hosts = {"a", "a", "b", "b"}});
}

TEST(Recovery, SaysWhoLeftAndWhoCame) {
  Recovery recovery = job();
  EXPECT_EQ(recovery.begun(membership(1, {0, 1, 2}), kNoon), "");
  EXPECT_EQ(recovery.failed({2, 137, "signal 9 (Killed)"}, kNoon),
            "rank 2 on host b was lost: signal 9 (Killed); a spare takes its place");
  EXPECT_EQ(recovery.begun(membership(2, {0, 1, 3}), kNoon + milliseconds(340)),
            "membership 2: 3 ranks again, 340 ms after hvdrun knew; rank 2 is process 3 now");
  EXPECT_EQ(recovery.name_of(3), "rank 2");
}

TEST(Recovery, SaysWhichRankIsAnotherNow) {
  Recovery recovery = job();
  EXPECT_TRUE(recovery.failed({0, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(
      recovery.begun(membership(2, {1, 3, 2}), kNoon),
      "membership 2: 3 ranks again, 0 ms after hvdrun knew; rank 0 is what was rank 1; rank 1 "
      "is process 3 now");
}

TEST(Recovery, GoesOnWithFewerDownToTheLeast) {
  Recovery recovery = job(2);
  EXPECT_TRUE(recovery.failed({3, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(recovery.failed({1, 1, "exit code 1"}, kNoon),
            "rank 1 on host a was lost: exit code 1; 2 ranks go on");
  (void)recovery.begun(membership(2, {0, 2}), kNoon);
  EXPECT_FALSE(recovery.failed({0, 3, "exit code 3"}, kNoon));
  EXPECT_EQ(recovery.shortage(), "1 process is left, and it needs 2 ranks");
  EXPECT_EQ(recovery.first_loss(), "rank 1 on host a was lost: exit code 1");
}

TEST(Recovery, ASpareThatEndsCostsNoRank) {
  Recovery recovery = job();
  EXPECT_EQ(recovery.failed({3, 1, "exit code 1"}, kNoon),
            "spare 3 on host b was lost: exit code 1");
  EXPECT_EQ(recovery.first_loss(), "");
  EXPECT_FALSE(recovery.failed({0, 1, "exit code 1"}, kNoon));
}

TEST(Recovery, FillsPlacesOfTheReserveAndOfThoseThatEnded) {
  Recovery recovery({.size = 2, .min_size = 1, .reserve = 2, .hosts = {"a", "a", "a", "a"}});
  EXPECT_EQ(recovery.free_places(9), (std::vector<int>{2, 3}));
  EXPECT_EQ(recovery.free_places(1), (std::vector<int>{2}));
  EXPECT_EQ(recovery.add(2), 4);
  EXPECT_EQ(recovery.free_places(9), (std::vector<int>{3}));
  EXPECT_TRUE(recovery.failed({1, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(recovery.free_places(9), (std::vector<int>{1, 3}));
}

TEST(Recovery, KnowsWhichNodesHaveNobody) {
  Recovery recovery({.size = 2, .min_size = 1, .hosts = {"a", ""}});
  EXPECT_FALSE(recovery.knows_hosts());
  recovery.came({1, "b"});
  EXPECT_TRUE(recovery.knows_hosts());
  EXPECT_EQ(recovery.missing(), 0);
  EXPECT_TRUE(recovery.failed({1, 1, "its node does not answer"}, kNoon));
  EXPECT_EQ(recovery.missing(), 1);
  EXPECT_FALSE(recovery.is_used("b"));
  EXPECT_EQ(recovery.add_on("b"), 2);
  EXPECT_EQ(recovery.place(2), 2);
  EXPECT_EQ(recovery.missing(), 0);
  EXPECT_TRUE(recovery.is_used("b"));
}

TEST(Recovery, EndsSparesThatNobodyNeeds) {
  Recovery recovery({.size = 3, .min_size = 1, .hosts = {"a", "a", "a", "a"}});
  EXPECT_EQ(recovery.begun(membership(1, {0, 1, 2}), kNoon), "");
  EXPECT_TRUE(recovery.surplus().empty()) << "one spare is to be there";
  recovery.aim_at(2);
  EXPECT_EQ(recovery.surplus(), (std::vector<int>{3})) << "ranks are needed until the next commit";
  recovery.aim_at(1);
  recovery.dismiss(3);
  EXPECT_TRUE(recovery.surplus().empty()) << "it ends already";
  EXPECT_EQ(recovery.begun(membership(2, {0}), kNoon), "");
  EXPECT_EQ(recovery.surplus(), (std::vector<int>{2})) << "the other one is the spare now";
}

TEST(Recovery, NeedsARankThatHasTheState) {
  Recovery recovery({.size = 1, .min_size = 1, .hosts = {"a", "a"}});
  EXPECT_FALSE(recovery.failed({0, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(recovery.shortage(), "no rank is left that has the state of training");
  EXPECT_TRUE(recovery.is_over());
}

TEST(Recovery, NothingFollowsTheEndOfAProgram) {
  Recovery recovery = job(1);
  recovery.finished(0);
  EXPECT_FALSE(recovery.failed({1, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(recovery.shortage(), "rank 0 on host a has come to the end of its program already");
}

TEST(Recovery, IsOverWhenOnlySparesLive) {
  Recovery recovery = job();
  for (const int process : {0, 1}) recovery.finished(process);
  EXPECT_FALSE(recovery.is_over());
  recovery.finished(2);
  EXPECT_TRUE(recovery.is_over());
}

TEST(Recovery, EndsTheWaitForWhoDoesNotComeBack) {
  Recovery recovery = job();
  const auto patience = Recovery::Options().patience;
  recovery.entered({.process = 0}, kNoon);
  EXPECT_TRUE(recovery.next().is_forever()) << "of the start";
  (void)recovery.begun(membership(1, {0, 1, 2}), kNoon);
  recovery.entered({.process = 3}, kNoon);
  EXPECT_TRUE(recovery.next().is_forever()) << "a spare";
  recovery.entered({.process = 0, .lost = 2}, kNoon);
  recovery.entered({.process = 1, .lost = 0}, kNoon + milliseconds(5));
  EXPECT_TRUE(recovery.overdue(kNoon + patience - milliseconds(1)).empty());
  EXPECT_EQ(recovery.overdue(kNoon + patience), std::vector<int>{2});
  EXPECT_TRUE(recovery.overdue(kNoon + patience).empty());
  EXPECT_TRUE(recovery.unkillable(kNoon + patience + std::chrono::seconds(9)).empty());
  EXPECT_FALSE(recovery.next().is_forever());
  EXPECT_EQ(recovery.unkillable(kNoon + patience + std::chrono::seconds(10)), std::vector<int>{2});
  EXPECT_EQ(recovery.add(2), 4);
  (void)recovery.failed({2, 1, "it hung", 4}, kNoon + patience);
  EXPECT_EQ(recovery.overdue(kNoon + 2 * patience), std::vector<int>{4}) << "it hangs, too";
  (void)recovery.begun(membership(2, {0, 1, 3}), kNoon);
  EXPECT_TRUE(recovery.overdue(kNoon + 9 * patience).empty());
}

TEST(Recovery, WhoHasComeAgainIsNotAwaited) {
  Recovery recovery = job();
  (void)recovery.begun(membership(1, {0, 1, 2}), kNoon);
  recovery.entered({.process = 0, .lost = 2}, kNoon);
  (void)recovery.begun(membership(2, {0, 1, 2}), kNoon);
  EXPECT_TRUE(recovery.next().is_forever());
}

TEST(Recovery, AnExitCodeOfZeroMayHideAFailure) {
  Recovery recovery = job();
  (void)recovery.begun(membership(1, {0, 1, 2}), kNoon);
  recovery.finished(1);
  EXPECT_FALSE(recovery.can_spare(2));
  EXPECT_EQ(recovery.take_refuted(), std::nullopt);
  recovery.entered({.process = 0, .lost = 1}, kNoon);
  EXPECT_EQ(recovery.take_refuted(), 1);
  EXPECT_EQ(recovery.take_refuted(), std::nullopt);
  EXPECT_EQ(recovery.failed({1, 1, "hidden"}, kNoon),
            "rank 1 on host a was lost: hidden; a spare takes its place");
  EXPECT_FALSE(recovery.was_lost(2));
  recovery.entered({.process = 0, .lost = 2}, kNoon);
  EXPECT_TRUE(recovery.was_lost(2)) << "before it ends";
}

TEST(Recovery, ALossThatNothingFollowedIsTheFailureOfTheJob) {
  Recovery recovery = job();
  EXPECT_FALSE(recovery.unhealed());
  (void)recovery.failed({1, 139, "signal 11 (Segmentation fault)"}, kNoon);
  recovery.finished(0);
  recovery.finished(2);
  EXPECT_TRUE(recovery.is_over());
  ASSERT_TRUE(recovery.unhealed());
  EXPECT_EQ(recovery.unhealed()->code, 139);
  EXPECT_EQ(recovery.unhealed()->what,
            "rank 1 on host a was lost: signal 11 (Segmentation fault); the others ended without "
            "it");
}

TEST(Recovery, ALossThatIsMadeGoodIsNone) {
  Recovery recovery = job();
  (void)recovery.failed({1, 1, "exit code 1"}, kNoon);
  (void)recovery.begun(membership(2, {0, 3, 2}), kNoon);
  EXPECT_FALSE(recovery.unhealed());
}

TEST(Recovery, SaysHowManyGoOnWhereSparesDoNotSuffice) {
  Recovery recovery = job(2);
  EXPECT_EQ(recovery.failed({0, 1, "exit code 1"}, kNoon),
            "rank 0 on host a was lost: exit code 1; a spare takes its place");
  EXPECT_EQ(recovery.failed({1, 1, "exit code 1"}, kNoon),
            "rank 1 on host a was lost: exit code 1; 2 ranks go on");
}

TEST(Recovery, TheLossOfASpareMayEndARecovery) {
  Recovery recovery = job();
  EXPECT_TRUE(recovery.failed({0, 1, "exit code 1"}, kNoon));
  EXPECT_FALSE(recovery.failed({3, 1, "exit code 1"}, kNoon));
  EXPECT_EQ(recovery.shortage(), "2 processes are left, and it needs 3 ranks");
}

TEST(Recovery, AProcessThatIsStartedAgainTakesPart) {
  Recovery recovery({.size = 2, .min_size = 2, .hosts = {"a", "b"}});
  ASSERT_TRUE(recovery.can_spare(1));
  EXPECT_EQ(recovery.add(1), 2);
  EXPECT_EQ(recovery.failed({1, 1, "exit code 1", 2}, kNoon),
            "rank 1 on host b was lost: exit code 1; it is started again as 2");
  EXPECT_EQ(recovery.place(2), 1);
  EXPECT_EQ(recovery.begun(membership(2, {0, 2}), kNoon),
            "membership 2: 2 ranks again, 0 ms after hvdrun knew; rank 1 is process 2 now");
  EXPECT_EQ(recovery.failed({2, 1, "exit code 1", {}, "enough of it"}, kNoon), std::nullopt);
}

TEST(Recovery, SaysThatTheJobGrows) {
  Recovery recovery = job(2);
  (void)recovery.failed({1, 1, "exit code 1"}, kNoon);
  EXPECT_EQ(recovery.begun(membership(2, {0, 2}), kNoon),
            "membership 2: 2 ranks again, 0 ms after hvdrun knew; rank 1 is what was rank 2");
  EXPECT_EQ(recovery.begun(membership(3, {0, 2, 3}), kNoon),
            "membership 3: 3 ranks; rank 2 is process 3 now");
  EXPECT_EQ(recovery.begun(membership(4, {0, 2, 3}), kNoon), "");
}

TEST(Recovery, NobodyIsStartedAgainForWhoHasNoState) {
  Recovery recovery = job(1);
  recovery.finished(0);
  EXPECT_FALSE(recovery.can_spare(1));
  Recovery lone({.size = 1, .min_size = 1, .hosts = {"a", "a"}});
  EXPECT_FALSE(lone.can_spare(0));
  EXPECT_TRUE(lone.can_spare(1)) << "a spare";
}

TEST(Recovery, LearnsWhereProcessesRun) {
  Recovery recovery({.size = 1, .min_size = 1, .hosts = {"", ""}});
  EXPECT_EQ(recovery.failed({1, 1, "exit code 1"}, kNoon), "spare 1 was lost: exit code 1");
  recovery.came({.process = 0, .host = "jz1"});
  EXPECT_EQ(recovery.describe_failure("rank 0", {0, 2, "exit code 2"}).substr(0, 26),
            "rank 0 on host jz1 failed:");
}

}  // namespace
}  // namespace hvd
