// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace hvd {
namespace {

using std::chrono::seconds;

/// A roster, and the memberships that it gave as "epoch: processes by rank".
class Job {
 public:
  Job(int size, int min_size, std::vector<int> nodes)
      : roster_({.size = size, .min_size = min_size, .processes = static_cast<int>(nodes.size())}),
        nodes_(std::move(nodes)) {}

  std::string enter(const std::vector<int>& processes) {
    std::string text;
    for (const int process : processes) {
      EXPECT_TRUE(roster_.may_enter(process));
      roster_.enter(process, std::to_string(nodes_[static_cast<std::size_t>(process)]));
      text += begin();
    }
    return text;
  }
  void add(int node) {
    roster_.add_process();
    nodes_.push_back(node);
  }
  std::string end(int process) {
    roster_.ended(process);
    return begin();
  }
  std::string wait(Clock::duration time) {
    now_ += time;
    return begin();
  }
  /// "local rank of local size" by rank, of the last membership.
  std::string places() const {
    std::string text;
    for (const auto& member : last_.members) {
      text += (text.empty() ? "" : " ") + std::to_string(member.local_rank) + "/" +
              std::to_string(member.local_size);
    }
    return text;
  }
  Roster& roster() { return roster_; }

 private:
  std::string begin() {
    const auto membership = roster_.begin(now_);
    if (!membership) return "";
    last_ = *membership;
    std::string text = std::to_string(membership->epoch) + ":";
    for (const auto& member : membership->members) text += " " + std::to_string(member.process);
    return text;
  }

  Roster roster_;
  std::vector<int> nodes_;  ///< By process.
  Membership last_;
  Clock::time_point now_;
};

std::vector<int> one_node(int processes) {
  return std::vector<int>(static_cast<std::size_t>(processes), 0);
}

TEST(Roster, BeginsWhenAllRanksHaveEntered) {
  Job job(3, 3, one_node(3));
  EXPECT_EQ(job.enter({2, 0}), "");
  EXPECT_EQ(job.roster().missing(), "rank 1");
  EXPECT_EQ(job.enter({1}), "1: 0 1 2");
  EXPECT_EQ(job.places(), "0/3 1/3 2/3");
}

TEST(Roster, ASpareTakesTheLostRank) {
  Job job(3, 3, one_node(4));
  EXPECT_EQ(job.enter({3, 0, 1, 2}), "1: 0 1 2");
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0, 2}), "2: 0 3 2");
  EXPECT_EQ(job.places(), "0/3 1/3 2/3");
}

TEST(Roster, RankZeroIsAlwaysASurvivorAndKeepsItsPlaceOnTheNode) {
  Job job(3, 3, one_node(4));
  EXPECT_EQ(job.enter({3, 0, 1, 2}), "1: 0 1 2");
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({1, 2}), "2: 1 3 2");
  // The spare has the place, and so the GPU, of the process that was lost.
  EXPECT_EQ(job.places(), "1/3 0/3 2/3");
}

TEST(Roster, ASpareThatHasJustComeDoesNotBecomeRankZeroBeforeTheOthers) {
  Job job(4, 4, one_node(6));
  EXPECT_EQ(job.enter({4, 5, 0, 1, 2, 3}), "1: 0 1 2 3");
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({1, 2, 3}), "2: 1 4 2 3");
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({4, 2, 3}), "3: 2 4 5 3");
}

TEST(Roster, ASpareThatMustMoveDoesNotBecomeRankZeroBeforeTheOthers) {
  Job job(3, 2, one_node(4));
  EXPECT_EQ(job.enter({3, 0, 1, 2}), "1: 0 1 2");
  EXPECT_EQ(job.end(2), "");
  EXPECT_EQ(job.enter({0, 1}), "2: 0 1 3");
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({1, 3}), "3: 1 3");
}

TEST(Roster, GrowsAgainWhenThereIsSomebody) {
  Job job(3, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1, 2}), "1: 0 1 2");
  job.roster().met();
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0, 2}), "2: 0 2");
  job.roster().met();
  EXPECT_FALSE(job.roster().can_change());
  job.add(0);
  EXPECT_FALSE(job.roster().can_change());
  EXPECT_EQ(job.enter({3}), "");
  EXPECT_TRUE(job.roster().can_change());
  EXPECT_EQ(job.enter({0}), "");
  EXPECT_FALSE(job.roster().can_change()) << "it does already";
  EXPECT_EQ(job.enter({2}), "3: 0 2 3");
  EXPECT_FALSE(job.roster().can_change()) << "not all have met";
  job.roster().met();
  EXPECT_FALSE(job.roster().can_change()) << "as many as there may be";
}

TEST(Roster, GrowsBeyondItsStart) {
  Job job(2, 1, one_node(2));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  job.roster().met();
  job.add(0);
  EXPECT_EQ(job.enter({2}), "");
  EXPECT_FALSE(job.roster().can_change()) << "a spare";
  job.roster().aim_at(3);
  EXPECT_TRUE(job.roster().can_change());
  EXPECT_EQ(job.enter({1, 0}), "2: 0 1 2");
}

TEST(Roster, TakesTheLastRanksBack) {
  Job job(4, 2, one_node(4));
  EXPECT_EQ(job.enter({0, 1, 2, 3}), "1: 0 1 2 3");
  job.roster().met();
  job.roster().aim_at(1);
  EXPECT_TRUE(job.roster().can_change());
  EXPECT_EQ(job.enter({3, 2, 0}), "");
  EXPECT_EQ(job.enter({1}), "2: 0 1") << "as many as it needs";
  job.roster().met();
  EXPECT_FALSE(job.roster().can_change());
  EXPECT_FALSE(job.roster().is_member(2));
  // They wait on, and may take the place of one that is lost.
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({1}), "3: 1 2");
}

TEST(Roster, PlacesOfTheReserveHaveNoProcess) {
  Roster roster({.size = 1, .min_size = 1, .processes = 3, .reserve = 2});
  EXPECT_TRUE(roster.may_enter(0));
  EXPECT_FALSE(roster.may_enter(1));
  EXPECT_FALSE(roster.may_enter(2));
  roster.add_process();
  EXPECT_TRUE(roster.may_enter(3));
}

TEST(Roster, DoesNotGrowWhileOneIsLost) {
  Job job(3, 1, one_node(4));
  EXPECT_EQ(job.enter({0, 1, 2}), "1: 0 1 2");
  job.roster().met();
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({3}), "");
  EXPECT_FALSE(job.roster().can_change());
}

TEST(Roster, KnowsItsLastMembershipAlone) {
  Job job(2, 2, one_node(3));
  EXPECT_EQ(job.enter({2, 0, 1}), "1: 0 1");
  EXPECT_EQ(job.roster().process_of(1, 1), 1);
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0}), "2: 0 2");
  EXPECT_EQ(job.roster().process_of(2, 1), 2);
  EXPECT_EQ(job.roster().process_of(1, 1), std::nullopt);
  EXPECT_EQ(job.roster().process_of(2, 2), std::nullopt);
  EXPECT_EQ(job.roster().process_of(2, -1), std::nullopt);
}

TEST(Roster, ShrinksToTheLeastAndNoFurther) {
  Job job(4, 2, one_node(4));
  EXPECT_EQ(job.enter({0, 1, 2, 3}), "1: 0 1 2 3");
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0, 2, 3}), "2: 0 3 2");
  EXPECT_EQ(job.places(), "0/3 2/3 1/3");
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({2, 3}), "3: 2 3");
  EXPECT_EQ(job.end(3), "");
  ASSERT_TRUE(job.roster().verdict());
  EXPECT_EQ(job.roster().verdict()->code(), Code::kAborted);
  EXPECT_EQ(job.enter({2}), "");
}

TEST(Roster, WaitsForASpareThatStartsAShortWhile) {
  Job job(2, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0}), "");
  EXPECT_FALSE(job.roster().next().is_forever());
  EXPECT_EQ(job.wait(Roster::kPatience / 2), "");
  EXPECT_EQ(job.wait(Roster::kPatience / 2), "2: 0");
}

TEST(Roster, WaitsForNobodyOnceTheJobEnds) {
  Job job(2, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  EXPECT_EQ(job.end(1), "");
  EXPECT_EQ(job.enter({0}), "");
  EXPECT_FALSE(job.roster().next().is_forever());
  EXPECT_EQ(job.end(0), "");
  EXPECT_TRUE(job.roster().next().is_forever());
}

TEST(Roster, ASpareInTimeTakesItsPlaceAtOnce) {
  Job job(2, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  EXPECT_EQ(job.end(0), "");
  EXPECT_EQ(job.enter({1}), "");
  EXPECT_EQ(job.enter({2}), "2: 1 2");
}

TEST(Roster, ASpareOfTheNodeThatLostARankComesFirst) {
  Job job(4, 4, {0, 0, 1, 1, 0, 1});
  EXPECT_EQ(job.enter({4, 5, 0, 1, 2, 3}), "1: 0 1 2 3");
  EXPECT_EQ(job.end(3), "");
  EXPECT_EQ(job.enter({0, 1, 2}), "2: 0 1 2 5");
  EXPECT_EQ(job.places(), "0/2 1/2 0/2 1/2");
}

TEST(Roster, AMembershipIsVoidOnceAMemberLeavesItsStart) {
  Job job(2, 2, one_node(3));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  EXPECT_TRUE(job.roster().may_join(1));
  EXPECT_EQ(job.end(1), "");
  EXPECT_FALSE(job.roster().may_join(1));
  EXPECT_EQ(job.enter({0, 2}), "2: 0 2");
  EXPECT_TRUE(job.roster().may_join(2));
  EXPECT_FALSE(job.roster().may_join(1));
  job.roster().met();
  EXPECT_FALSE(job.roster().may_join(2));
}

TEST(Roster, WhoGoesBackTakesTheOthersAlong) {
  Job job(2, 2, one_node(2));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  EXPECT_EQ(job.enter({0}), "");
  EXPECT_FALSE(job.roster().may_join(1));
  EXPECT_EQ(job.enter({1}), "2: 0 1");
}

TEST(Roster, ARankThatTakesItsRequestBackIsWaitedFor) {
  Job job(2, 2, one_node(2));
  EXPECT_EQ(job.enter({0}), "");
  job.roster().withdraw(0);
  EXPECT_EQ(job.enter({1}), "");
  EXPECT_EQ(job.enter({0}), "1: 0 1");
}

TEST(Roster, NothingFollowsTheEndOfAProgram) {
  Job job(3, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1, 2}), "1: 0 1 2");
  job.roster().finish(1);
  EXPECT_EQ(job.enter({0}), "");
  EXPECT_FALSE(job.roster().verdict()) << "the other may have lost it";
  EXPECT_EQ(job.enter({2}), "");
  EXPECT_TRUE(job.roster().verdict());
}

TEST(Roster, AnEndThatOthersTakeForALossIsOne) {
  Job job(3, 1, one_node(3));
  EXPECT_EQ(job.enter({0, 1, 2}), "1: 0 1 2");
  job.roster().finish(1);
  EXPECT_EQ(job.enter({0}), "");
  job.roster().lose(1);
  EXPECT_EQ(job.enter({2}), "");
  EXPECT_FALSE(job.roster().verdict()) << "it may be started again";
  EXPECT_EQ(job.end(1), "2: 0 2");
  job.roster().lose(2);
  job.roster().finish(2);
  EXPECT_EQ(job.enter({0}), "");
  job.add(0);
  EXPECT_EQ(job.end(2), "");
  EXPECT_EQ(job.enter({3}), "3: 0 3");
}

TEST(Roster, ASpareThatEndsWellIsNotTheEnd) {
  Job job(2, 2, one_node(3));
  EXPECT_EQ(job.enter({0, 1}), "1: 0 1");
  job.roster().finish(2);
  EXPECT_FALSE(job.roster().verdict());
}

TEST(Roster, ASpareAloneHasNoStateToGoOnWith) {
  Job job(1, 1, one_node(2));
  EXPECT_EQ(job.enter({0, 1}), "1: 0");
  EXPECT_EQ(job.end(0), "");
  ASSERT_TRUE(job.roster().verdict());
}

/// Whatever happens in whatever order: rank 0 of a membership has been a member longest, each
/// process has one rank at most, lives, and keeps its rank where that is still there and not 0.
TEST(Roster, KeepsItsRulesInAnyOrder) {
  std::mt19937 random(7);
  int memberships = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    const int size = 1 + static_cast<int>(random() % 5);
    const int processes = size + static_cast<int>(random() % 4);
    const RosterPlan plan{
        .size = size, .min_size = 1 + static_cast<int>(random() % size), .processes = processes};
    std::vector<std::string> nodes;
    for (int i = 0; i < processes; ++i) nodes.emplace_back(random() % 2 == 0 ? "a" : "b");
    Roster roster(plan);
    std::map<int, int> since;  // By member: how many memberships there were before.
    for (int i = 0; i < size; ++i) since[i] = 0;
    std::vector<bool> lives(static_cast<std::size_t>(processes), true);
    std::vector<int> before;
    Clock::time_point now;
    for (int event = 0; event < 40; ++event) {
      const int process = static_cast<int>(random() % processes);
      const auto at = static_cast<std::size_t>(process);
      const unsigned what = random() % 10;
      if (what == 0) {
        roster.ended(process);
        lives[at] = false;
      } else if (what == 1) {
        roster.withdraw(process);
      } else if (lives[at]) {
        ASSERT_TRUE(roster.may_enter(process));
        roster.enter(process, nodes[at]);
      }
      now += seconds(random() % 4);
      const auto membership = roster.begin(now);
      if (!membership) continue;
      ++memberships;
      std::vector<int> ranks;
      for (const auto& member : membership->members) {
        EXPECT_TRUE(lives[static_cast<std::size_t>(member.process)]);
        EXPECT_LT(member.local_rank, member.local_size);
        ranks.push_back(member.process);
      }
      EXPECT_GE(static_cast<int>(ranks.size()), plan.min_size);
      EXPECT_LE(static_cast<int>(ranks.size()), size);
      std::vector<int> sorted = ranks;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
      std::map<int, int> still;
      for (const int member : ranks) {
        still[member] = since.contains(member) ? since[member] : memberships;
      }
      since = std::move(still);
      for (const auto& [member, joined] : since) EXPECT_LE(since[ranks.front()], joined);
      for (std::size_t rank = 1; rank < before.size() && rank < ranks.size(); ++rank) {
        const bool moved_to_zero = ranks.front() == before[rank];
        const bool is_gone = !lives[static_cast<std::size_t>(before[rank])];
        EXPECT_TRUE(ranks[rank] == before[rank] || moved_to_zero || is_gone);
      }
      before = ranks;
    }
  }
  EXPECT_GT(memberships, 2000);
}

}  // namespace
}  // namespace hvd
