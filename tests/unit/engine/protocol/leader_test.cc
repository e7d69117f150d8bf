// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/leader.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kLeaderStart{};

/// A leader of ranks 0 and 1 with one child leader of ranks 2 and 3.
class LeaderTest : public testing::Test {
 protected:
  LeaderTest() {
    leader_.follow(Define{0, "x"});
    leader_.follow(Define{1, "y"});
  }
  static RankSet ranks(std::initializer_list<int> list) {
    RankSet set(4);
    for (const int rank : list) set.add(rank);
    return set;
  }
  void child(std::vector<std::uint32_t> ids) {
    leader_.child_ready(ranks({2, 3}), {std::move(ids)}, kLeaderStart);
  }

  Leader leader_{ranks({0, 1, 2, 3}), 4};
};

TEST_F(LeaderTest, PassesOneWordWhenTheWholeSubtreeAgrees) {
  leader_.member_ready(0, 0, kLeaderStart);
  child({0});
  EXPECT_FALSE(leader_.has_up());
  leader_.member_ready(1, 0, kLeaderStart);
  const auto up = leader_.take_up();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(std::get<Ready>(up[0]).ids, std::vector<std::uint32_t>{0});
}

TEST_F(LeaderTest, ManyIdsTravelInOneMessage) {
  for (const std::uint32_t id : {0U, 1U}) {
    leader_.member_ready(0, id, kLeaderStart);
    leader_.member_ready(1, id, kLeaderStart);
  }
  child({0, 1});
  EXPECT_EQ(leader_.take_up().size(), 1u);
}

TEST_F(LeaderTest, BitsOfAnEvictedIdGoUpWithTheirRanksAndBeforeTheAnswer) {
  leader_.member_ready(0, 0, kLeaderStart);
  leader_.member_ready(1, 1, kLeaderStart);
  leader_.member_ready(0, 1, kLeaderStart);
  child({1});
  leader_.follow(Evict{{0, 1}});
  leader_.pass_up(Evicted{1});
  child({0});
  leader_.pass_up(Evicted{2});
  auto up = leader_.take_up();
  ASSERT_EQ(up.size(), 3u);
  EXPECT_EQ(std::get<Partial>(up[0]).ranks, ranks({0}));
  EXPECT_EQ(std::get<Partial>(up[1]).ranks, ranks({2, 3}));
  EXPECT_EQ(std::get<Ready>(up[2]).ids, std::vector<std::uint32_t>{1});
  leader_.member_ready(1, 0, kLeaderStart);
  leader_.pass_up(Evicted{1});
  up = leader_.take_up();
  ASSERT_EQ(up.size(), 2u);
  EXPECT_EQ(std::get<Partial>(up[0]).ranks, ranks({1}));
  EXPECT_EQ(std::get<Evicted>(up[1]).ranks, 4u);
}

TEST_F(LeaderTest, AnIdThatComesBackIsOneWordAgain) {
  leader_.follow(Evict{{0}});
  leader_.follow(Define{0, "x"});
  for (const int rank : {0, 1}) leader_.member_ready(rank, 0, kLeaderStart);
  child({0});
  const auto up = leader_.take_up();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(std::get<Ready>(up[0]).ids, std::vector<std::uint32_t>{0});
}

TEST_F(LeaderTest, AUseThatRanByItsNameIsOver) {
  leader_.pass_up(Announce{"x", true, {}, ranks({1})});
  leader_.follow(hvd::Run{{}, "x", 0, 0, 0});
  leader_.take_up();
  for (const int rank : {0, 1}) leader_.member_ready(rank, 0, kLeaderStart);
  child({0});
  EXPECT_EQ(std::get<Ready>(leader_.take_up().at(0)).ids, std::vector<std::uint32_t>{0});
}

TEST_F(LeaderTest, ADescriptionInFullTurnsTheIdPartial) {
  leader_.member_ready(0, 0, kLeaderStart);
  leader_.pass_up(Announce{"x", true, {}, ranks({1})});
  child({0});
  const auto up = leader_.take_up();
  ASSERT_EQ(up.size(), 3u);
  EXPECT_EQ(std::get<Partial>(up[0]).ranks, ranks({0}));
  EXPECT_TRUE(std::holds_alternative<Announce>(up[1]));
  EXPECT_EQ(std::get<Partial>(up[2]).ranks, ranks({2, 3}));
}

TEST_F(LeaderTest, TheLogEndsAUse) {
  leader_.pass_up(Announce{"x", true, {}, ranks({1})});
  leader_.take_up();
  leader_.follow(Failure{"x", Code::kMismatch, ""});
  leader_.member_ready(0, 0, kLeaderStart);
  leader_.member_ready(1, 0, kLeaderStart);
  child({0});
  EXPECT_TRUE(std::holds_alternative<Ready>(leader_.take_up().at(0)));
  leader_.follow(hvd::Run{{0}, ""});
  leader_.member_ready(0, 0, kLeaderStart);
  EXPECT_FALSE(leader_.has_up());
}

TEST_F(LeaderTest, GivesUpWaitingSoThatTheRootCanReport) {
  leader_.member_ready(1, 0, kLeaderStart);
  leader_.give_up_waiting(kLeaderStart + 9s, 10s);
  EXPECT_FALSE(leader_.has_up());
  leader_.give_up_waiting(kLeaderStart + 10s, 10s);
  const auto up = leader_.take_up();
  EXPECT_EQ(std::get<Partial>(up.at(0)).ranks, ranks({1}));
  EXPECT_EQ(std::get<Partial>(up.at(0)).waited_ms, 10'000u);
  leader_.member_ready(0, 0, kLeaderStart);
  EXPECT_EQ(std::get<Partial>(leader_.take_up().at(0)).ranks, ranks({0}));
}

TEST_F(LeaderTest, OnceARankHasLeftNothingWaitsForIt) {
  leader_.member_ready(1, 0, kLeaderStart);
  leader_.follow(Left{3});
  EXPECT_EQ(std::get<Partial>(leader_.take_up().at(0)).ranks, ranks({1}));
  leader_.follow(Failure{"x", Code::kAborted, ""});
  leader_.member_ready(0, 0, kLeaderStart);
  EXPECT_EQ(std::get<Partial>(leader_.take_up().at(0)).ranks, ranks({0}));
}

TEST_F(LeaderTest, WaitsForTheRanksOfTheProcessSetOnly) {
  Description description;
  description.process_set = 1;
  leader_.follow(SetAdded{1, ranks({1, 2})});
  leader_.follow(Define{2, "x", description});
  child({2});
  EXPECT_FALSE(leader_.has_up());
  leader_.member_ready(1, 2, kLeaderStart);
  EXPECT_EQ(std::get<Ready>(leader_.take_up().at(0)).ids, std::vector<std::uint32_t>{2});
  leader_.follow(SetRemoved{1});
  leader_.follow(Define{2, "z"});
  leader_.member_ready(1, 2, kLeaderStart);
  EXPECT_FALSE(leader_.has_up()) << "the id is the world's now";
}

TEST_F(LeaderTest, WhileARankHasJoinedTheRestOfItsSetIsToldInPart) {
  leader_.member_ready(1, 0, kLeaderStart);
  leader_.pass_up(Joining{1, 0, 0, false, {}});
  auto up = leader_.take_up();
  ASSERT_EQ(up.size(), 2u) << "what it announced before comes first";
  EXPECT_EQ(std::get<Partial>(up[0]).ranks, ranks({1}));
  leader_.member_ready(0, 1, kLeaderStart);
  EXPECT_FALSE(leader_.has_up());
  leader_.follow(Joined{1, 0});
  EXPECT_EQ(std::get<Partial>(leader_.take_up().at(0)).ranks, ranks({0}));
  leader_.follow(hvd::Run{{0, 1}, ""});
  leader_.member_ready(0, 0, kLeaderStart);
  EXPECT_TRUE(std::holds_alternative<Partial>(leader_.take_up().at(0)));
  leader_.follow(JoinEnd{0, 3});
  leader_.follow(hvd::Run{{0}, ""});
  for (const int rank : {0, 1}) leader_.member_ready(rank, 0, kLeaderStart);
  child({0});
  EXPECT_TRUE(std::holds_alternative<Ready>(leader_.take_up().at(0)));
}

TEST_F(LeaderTest, PassesOneUrgeForEachTimeThatBucketsAreFrozen) {
  const auto urge = [this] {
    leader_.pass_up(Urge{0, "rank 1 waits"});
    return leader_.take_up().size();
  };
  EXPECT_EQ(urge(), 0u) << "there is nothing to open";
  leader_.follow(Frozen{0, {0, 1}, {2}});
  EXPECT_EQ(urge(), 1u);
  EXPECT_EQ(urge(), 0u) << "of a second rank, of the same buckets";
  leader_.follow(Thawed{0, "rank 1 waits"});
  EXPECT_EQ(urge(), 0u);
  leader_.follow(Frozen{0, {0, 1}, {2}});
  EXPECT_EQ(urge(), 1u);
  leader_.pass_up(Urge{5, "rank 1 waits"});
  EXPECT_FALSE(leader_.has_up()) << "of a process set that the log has not named";
}

TEST_F(LeaderTest, IgnoresIdsThatTheLogHasNotNamed) {
  leader_.member_ready(0, 77, kLeaderStart);
  child({78});
  EXPECT_FALSE(leader_.has_up());
}

}  // namespace
}  // namespace hvd
