// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/protocol/board.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

const Clock::time_point kStart{};

Description tensor_of(std::vector<std::int64_t> shape, Operation operation = Allreduce{}) {
  Description description;
  description.operation = operation;
  description.tensors.push_back({DataType::kFloat32, 0, std::move(shape)});
  return description;
}

class CoordinatorTest : public testing::Test {
 protected:
  RankSet ranks(std::initializer_list<int> list) {
    RankSet set(3);
    for (const int rank : list) set.add(rank);
    return set;
  }
  void announce(const std::string& name, std::initializer_list<int> list,
                Description description = tensor_of({4}), bool cacheable = true) {
    coordinator_.announce({name, cacheable, std::move(description), ranks(list)}, kStart);
  }
  /// The log as short text: "define x=0", "run 0 1", "run 'x'", "fail x", "left 1", "shutdown".
  std::vector<std::string> decide(bool may_run = true) {
    std::vector<std::string> lines;
    for (int set = 0; set < 4; ++set) coordinator_.hold(set, !may_run);
    for (const ControlMessage& entry : coordinator_.decide()) {
      if (const auto* define = std::get_if<Define>(&entry)) {
        lines.push_back(format_text("define {}={}", define->name, define->id));
      } else if (const auto* run = std::get_if<hvd::Run>(&entry)) {
        std::string line = "run";
        for (const auto id : run->ids) line += format_text(" {}", id);
        if (!run->name.empty()) line += " '" + run->name + "'";
        lines.push_back(line);
      } else if (const auto* failure = std::get_if<Failure>(&entry)) {
        lines.push_back("fail " + failure->name);
        text_ = failure->text;
      } else if (const auto* left = std::get_if<Left>(&entry)) {
        lines.push_back(format_text("left {}{}", left->rank, left->owes ? " owing" : ""));
      } else if (std::holds_alternative<Shutdown>(entry)) {
        lines.emplace_back("shutdown");
      }
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  Coordinator coordinator_{{"a", "b", "c"}, {1'000, 10'000ms}};
  std::string text_;
};

TEST_F(CoordinatorTest, WaitsUntilEveryRankHasAnnounced) {
  announce("x", {0, 2});
  EXPECT_EQ(decide(), Lines{});
  announce("x", {1});
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"}));
}

TEST_F(CoordinatorTest, TellsAllOfASetThatComesAndGoes) {
  coordinator_.add_set(ranks({0, 2}));
  auto log = coordinator_.decide();
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(std::get<SetAdded>(log.front()).ranks, ranks({0, 2}));
  coordinator_.remove_set(1);
  log = coordinator_.decide();
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(std::get<SetRemoved>(log.front()).process_set, 1);
  coordinator_.remove_set(1);
  coordinator_.remove_set(0);
  EXPECT_TRUE(coordinator_.decide().empty()) << "gone already, and the set of all ranks stays";
}

TEST_F(CoordinatorTest, AnIdNeedsNoSecondDefinition) {
  announce("x", {0, 1, 2});
  decide();
  coordinator_.ready(0, ranks({0, 1, 2}), kStart);
  EXPECT_EQ(decide(), Lines{"run 0"});
}

TEST_F(CoordinatorTest, NamesThatComeOnceLeaveIdsToThoseThatComeAgain) {
  for (std::uint32_t step = 0; step < Board::kMaxIds * 10; ++step) {
    announce(format_text("loss of step {}", step), {0, 1, 2});
    ASSERT_EQ(decide().size(), step < Board::kMaxIds / 2 ? 2 : 1) << step;
  }
  announce("gradient", {0, 1, 2});
  EXPECT_EQ(decide(), Lines{"run 'gradient'"});
  announce("gradient", {0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"define gradient=2016", "run 2016"}));
  coordinator_.ready(2016, ranks({0, 1, 2}), kStart);
  EXPECT_EQ(decide(), Lines{"run 2016"});
}

TEST_F(CoordinatorTest, NamesRunInTheOrderInWhichTheyBecameComplete) {
  announce("x", {0});
  announce("y", {0, 1, 2}, tensor_of({4}, Broadcast{0}));
  announce("x", {1, 2});
  EXPECT_EQ(decide(), (Lines{"define y=0", "define x=1", "run 0", "run 1"}));
}

TEST_F(CoordinatorTest, WhileBusyCompleteNamesGatherIntoOneRun) {
  announce("x", {0, 1, 2});
  EXPECT_EQ(decide(false), Lines{"define x=0"});
  announce("y", {0, 1, 2});
  EXPECT_EQ(decide(false), Lines{"define y=1"});
  EXPECT_EQ(decide(true), Lines{"run 0 1"});
}

TEST_F(CoordinatorTest, AnUrgentNamePassesLargeOnesThatAreNotInTheLog) {
  const Description large = tensor_of({1 << 20});  // 4 MiB: a run of its own
  announce("a", {0, 1, 2}, large);
  announce("b", {0, 1, 2}, large);
  announce("c", {0, 1, 2}, large);
  EXPECT_EQ(decide(), (Lines{"define a=0", "define b=1", "define c=2", "run 0"}));
  Description urgent = tensor_of({1});
  urgent.priority = 1;
  announce("u", {0, 1, 2}, urgent);
  EXPECT_TRUE(coordinator_.has_pending());
  EXPECT_EQ(decide(), (Lines{"define u=3", "run 3", "run 1"}));
  EXPECT_EQ(decide(), Lines{"run 2"});
  EXPECT_FALSE(coordinator_.has_pending());
}

TEST_F(CoordinatorTest, ADescriptionThatChangesForGoodStartsANewEpoch) {
  announce("x", {0, 1, 2});
  decide();
  announce("x", {0, 1, 2}, tensor_of({5}));
  EXPECT_EQ(decide(), Lines{"run 'x'"}) << "it may come once, as that of a last and smaller batch";
  coordinator_.ready(0, kStart);
  EXPECT_EQ(decide(), Lines{"run 0"}) << "the id means what it meant";
  announce("x", {0, 1, 2}, tensor_of({5}));
  EXPECT_EQ(decide(), Lines{"run 'x'"});
  announce("x", {0, 1, 2}, tensor_of({5}));
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"}));
  coordinator_.ready(0, kStart);
  EXPECT_EQ(decide(), Lines{"run 0"});
}

TEST_F(CoordinatorTest, TheDescriptionOfASingleUseReachesWhoHasJoined) {
  announce("x", {0, 1, 2});
  decide();
  coordinator_.join({2, 0, 0, false, {}});
  decide();
  announce("x", {0, 1}, tensor_of({5}));
  const auto log = coordinator_.decide();
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(std::get<hvd::Run>(log[0]).name, "x");
  EXPECT_EQ(std::get<hvd::Run>(log[0]).description, tensor_of({5}));
}

TEST_F(CoordinatorTest, HalfOldAndHalfNewDescriptionsAreAMismatch) {
  announce("x", {0, 1, 2});
  decide();
  coordinator_.ready(0, ranks({0, 2}), kStart);
  announce("x", {1}, tensor_of({5}));
  EXPECT_EQ(decide(), Lines{"fail x"});
  EXPECT_THAT(text_, HasSubstr("ranks 0, 2 have [4], rank 1 has [5]"));
  coordinator_.ready(0, ranks({0, 1, 2}), kStart);
  EXPECT_EQ(decide(), Lines{"run 0"}) << "the id means what it meant before";
}

TEST_F(CoordinatorTest, NamesThatWillNotComeAgainGetNoId) {
  announce("noname.1", {0, 1, 2}, tensor_of({4}), false);
  EXPECT_EQ(decide(), Lines{"run 'noname.1'"});
  EXPECT_FALSE(coordinator_.has_pending());
}

TEST_F(CoordinatorTest, ALeftRankFailsWhatItHadNotAnnounced) {
  announce("x", {0, 1});
  announce("y", {2});
  coordinator_.leave({2});
  EXPECT_EQ(decide(), (Lines{"left 2", "fail x"})) << "y it had announced";
  announce("y", {0, 1});
  EXPECT_EQ(decide(), (Lines{"define y=0", "run 0"}));
  announce("z", {0});
  EXPECT_EQ(decide(), Lines{"fail z"});
  EXPECT_THAT(text_, HasSubstr("rank 2 on host c left"));
}

TEST_F(CoordinatorTest, ARankThatOwesHasLeftOnceItHasPaidForEveryUse) {
  coordinator_.add_set(ranks({0, 1}));
  coordinator_.remove_set(1);
  decide();
  coordinator_.leave({1, {{0, "x", 2}, {0, "y", 1}}});
  EXPECT_EQ(decide(), Lines{"left 1 owing"});
  announce("x", {0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"}));
  announce("x", {0, 1, 2});
  EXPECT_EQ(decide(), Lines{"run 0"}) << "it owes y";
  announce("y", {0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"left 1", "define y=1", "run 1"}));
}

TEST_F(CoordinatorTest, ShutsDownWhenAllHaveLeft) {
  coordinator_.leave({1});
  coordinator_.leave({1});
  coordinator_.leave({0});
  coordinator_.leave({2});
  EXPECT_EQ(decide(), (Lines{"left 1", "left 0", "left 2", "shutdown"}));
}

TEST_F(CoordinatorTest, ReportsAllThatWaitsWithWhoIsMissing) {
  announce("x", {0, 1});
  announce("y", {2});
  EXPECT_FALSE(coordinator_.report_stalls(kStart + 9s));
  const auto stalls = coordinator_.report_stalls(kStart + 10s);
  ASSERT_TRUE(stalls);
  ASSERT_EQ(stalls->tensors.size(), 2u);
  EXPECT_EQ(stalls->tensors[0].name, "x");
  EXPECT_EQ(stalls->tensors[0].operation, "allreduce(sum)");
  EXPECT_EQ(stalls->tensors[0].waited, 10s);
  EXPECT_EQ(stalls->tensors[0].ranks, ranks({0, 1}));
  EXPECT_EQ(stalls->tensors[0].missing, ranks({2}));
  EXPECT_EQ(stalls->tensors[1].missing, ranks({0, 1}));
  EXPECT_FALSE(coordinator_.report_stalls(kStart + 29s)) << "the second after twice the time";
  EXPECT_TRUE(coordinator_.report_stalls(kStart + 30s));
}

TEST_F(CoordinatorTest, AStallCountsFromWhenRanksBeganToWaitNotFromWhenItWasTold) {
  announce("x", {0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"}));
  coordinator_.ready(0, ranks({1}), kStart + 2s);
  coordinator_.ready(0, ranks({0}), kStart);
  EXPECT_TRUE(coordinator_.report_stalls(kStart + 10s));
}

TEST_F(CoordinatorTest, AStallEndsTheEpochAfterTheTimeForItAndNeverWithout) {
  announce("x", {0, 1});
  EXPECT_FALSE(coordinator_.unbearable_stalls(kStart + 1'000h));
  Coordinator strict({"a", "b", "c"}, {1'000, 10'000ms, 20'000ms});
  strict.announce({"x", true, tensor_of({4}), ranks({0, 1})}, kStart);
  EXPECT_FALSE(strict.unbearable_stalls(kStart + 19s));
  const auto stalls = strict.unbearable_stalls(kStart + 20s);
  ASSERT_TRUE(stalls);
  EXPECT_EQ(stalls->tensors.at(0).missing, ranks({2}));
  strict.join({2, 0, 0, false, {}});
  EXPECT_FALSE(strict.unbearable_stalls(kStart + 1'000h)) << "nobody waits for who has joined";
}

TEST_F(CoordinatorTest, AStallTellsWhoHasJoined) {
  coordinator_.join({2, 0, 0, false, {}});
  announce("x", {0});
  const auto stalls = coordinator_.report_stalls(kStart + 10s);
  ASSERT_TRUE(stalls);
  EXPECT_EQ(stalls->parted, ranks({2}));
  EXPECT_EQ(stalls->tensors.at(0).missing, ranks({1})) << "nobody waits for who has joined";
}

TEST_F(CoordinatorTest, KeepsRunsBelowTheFusionThreshold) {
  for (const char* name : {"a", "b", "c"}) announce(name, {0, 1, 2}, tensor_of({100}));
  EXPECT_EQ(decide().back(), "run 2") << "400 + 400 bytes fit into 1000, a third does not";
}

TEST_F(CoordinatorTest, ANameOfAProcessSetNeedsOnlyItsRanks) {
  coordinator_.add_set(ranks({0, 2}));
  decide();
  Description description = tensor_of({4});
  description.process_set = 1;
  announce("x", {0, 1, 2});
  announce("x", {0}, description);
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"})) << "the world's x is another tensor";
  announce("x", {2}, description);
  EXPECT_EQ(decide(), (Lines{"define x=1", "run 1"}));
}

TEST_F(CoordinatorTest, ABusyProcessSetHoldsNoOtherBack) {
  coordinator_.add_set(ranks({0, 1}));
  decide();
  Description description = tensor_of({4});
  description.process_set = 1;
  announce("x", {0, 1}, description);
  announce("y", {0, 1, 2});
  coordinator_.hold(1, true);
  coordinator_.hold(0, false);
  std::vector<int> sets;
  for (const ControlMessage& entry : coordinator_.decide()) {
    if (const auto* run = std::get_if<hvd::Run>(&entry)) sets.push_back(run->process_set);
  }
  EXPECT_EQ(sets, std::vector<int>{0});
  EXPECT_EQ(decide(), Lines{"run 0"});
}

TEST_F(CoordinatorTest, AStallNamesTheMissingMembersOnly) {
  coordinator_.add_set(ranks({0, 2}));
  decide();
  Description description = tensor_of({4});
  description.process_set = 1;
  announce("x", {0}, description);
  const auto stalls = coordinator_.report_stalls(kStart + 10s);
  ASSERT_TRUE(stalls);
  EXPECT_EQ(stalls->tensors.at(0).process_set, 1);
  EXPECT_EQ(stalls->tensors.at(0).missing, ranks({2}));
}

TEST_F(CoordinatorTest, ARemovedProcessSetGivesItsIdsBack) {
  coordinator_.add_set(ranks({1}));
  decide();
  Description description = tensor_of({4});
  description.process_set = 1;
  announce("x", {1}, description);
  EXPECT_EQ(decide(), (Lines{"define x=0", "run 0"}));
  coordinator_.remove_set(1);
  announce("x", {1}, description);
  EXPECT_EQ(decide(), Lines{}) << "nobody hears of a set that is no more";
  announce("y", {0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"define y=0", "run 0"}));
  coordinator_.add_set(ranks({1}));
  const auto log = coordinator_.decide();
  EXPECT_EQ(std::get<SetAdded>(log.at(0)).process_set, 2) << "numbers of sets never come again";
}

TEST_F(CoordinatorTest, AJoinedRankNeedNotAnnounceAnAllreduce) {
  announce("x", {0, 1});
  coordinator_.join({2, 0, 0, true, {}});
  const auto log = coordinator_.decide();
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(std::get<Joined>(log[0]).rank, 2);
  EXPECT_EQ(std::get<Define>(log[1]).description, tensor_of({4}));
  EXPECT_EQ(std::get<hvd::Run>(log[2]).divisor, 2);
  announce("once", {0, 1}, tensor_of({4}), false);
  EXPECT_EQ(std::get<hvd::Run>(coordinator_.decide().at(0)).description, tensor_of({4}))
      << "rank 2 does not know it";
  announce("b", {0, 1}, tensor_of({4}, Broadcast{0}));
  EXPECT_EQ(decide(), Lines{"fail b"});
  EXPECT_THAT(text_, HasSubstr("rank 2 has joined process set 0: only allreduce"));
}

TEST_F(CoordinatorTest, OnGpuMemoryOneBatchHoldsWhatARankStandsInForOrNothingOfIt) {
  Description on_gpu = tensor_of({4});
  on_gpu.device = DeviceKind::kCuda;
  announce("x", {2}, on_gpu);  // before it joins: its own
  announce("y", {0, 1}, on_gpu);
  announce("z", {0, 1}, on_gpu);
  announce("u", {0, 1, 2});
  coordinator_.join({2, 0, 0, false, {}});
  announce("x", {0, 1}, on_gpu);
  announce("v", {0, 1});
  EXPECT_EQ(decide(), (Lines{"define u=0", "define y=1", "define z=2", "define x=3", "define v=4",
                             "run 0 4", "run 1 2", "run 3"}));
}

TEST_F(CoordinatorTest, AJoinEndsWhenAllHaveJoinedAndWhatIsCompleteHasRun) {
  announce("x", {0, 1, 2});
  for (const int rank : {2, 0, 1}) coordinator_.join({rank, 0, 0, false, {}});
  const auto ends = [](const std::vector<ControlMessage>& log) {
    return std::holds_alternative<JoinEnd>(log.back());
  };
  coordinator_.hold(0, true);
  EXPECT_FALSE(ends(coordinator_.decide())) << "x has not run";
  coordinator_.hold(0, false);
  const auto log = coordinator_.decide();
  ASSERT_TRUE(ends(log));
  EXPECT_EQ(std::get<JoinEnd>(log.back()).rank, 1);
  coordinator_.join({0, 0, 0, false, {}});
  EXPECT_TRUE(coordinator_.decide().empty()) << "a word of the join that is over";
}

TEST_F(CoordinatorTest, RanksThatJoinInDifferentWaysFailTheJoin) {
  coordinator_.join({0, 0, 0, false, {}});
  coordinator_.join({1, 0, 0, true, {}});
  const auto log = coordinator_.decide();
  const auto& end = std::get<JoinEnd>(log.back());
  EXPECT_EQ(end.code, Code::kMismatch);
  EXPECT_THAT(end.text, HasSubstr("rank 0 said all, rank 1 says active"));
  announce("x", {1, 2});
  EXPECT_EQ(decide(), Lines{}) << "rank 0 is as any other again";
}

}  // namespace
}  // namespace hvd
