// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/stalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

RankSet set_of(std::initializer_list<int> list, int size = 4) {
  RankSet set(size);
  for (const int rank : list) set.add(rank);
  return set;
}

StalledTensor tensor(std::string name, std::chrono::milliseconds waited,
                     std::initializer_list<int> ranks, std::initializer_list<int> missing) {
  return {std::move(name), "allreduce(sum)", 0, waited, set_of(ranks), set_of(missing)};
}

std::string report(std::vector<StalledTensor> tensors, const RankSet& parted = RankSet(4)) {
  return describe_stalls({std::move(tensors), parted}, 60s,
                         {{"a", "b", "c", "d"}, {10, 11, 12, 0}});
}

TEST(Stalls, AreOneLineForEachGroupOfMissingRanksOldestFirst) {
  std::vector<StalledTensor> tensors;
  for (int i = 0; i < 161; ++i) {
    tensors.push_back(tensor("g." + std::to_string(i), 60'000ms + i * 1ms, {1, 2, 3}, {0}));
  }
  EXPECT_EQ(report(tensors),
            "161 tensors wait for rank 0 (host a, process 10), for 60.2 s: 'g.160' "
            "(allreduce(sum)), 'g.159' (allreduce(sum)), 'g.158' (allreduce(sum)) and 158 more\n"
            "  rank 0 (host a, process 10) is not known to wait for a tensor: it is in its own "
            "code, or came to one later; 'py-spy dump "
            "--pid 10' on host a shows where");
}

TEST(Stalls, OfOtherRanksAreOtherLines) {
  const std::string text =
      report({tensor("new", 70s, {0, 1}, {2, 3}), tensor("old", 90s, {0, 1, 3}, {2})});
  EXPECT_THAT(text,
              StartsWith("1 tensor waits for rank 2 (host c, process 12), for 90.0 s: 'old' "
                         "(allreduce(sum))\n  1 tensor waits for rank 2 (host c, process 12), "
                         "rank 3 (host d), for 70.0 s: 'new' (allreduce(sum))\n"));
  EXPECT_THAT(text, HasSubstr("\n  rank 3 waits in 'old' for rank 2\n"));
  EXPECT_THAT(text, HasSubstr("'py-spy dump --pid 12' on host c"));
}

TEST(Stalls, LeaveOutRanksThatAreMissedForAShortTimeOnly) {
  const std::string text = report({tensor("x", 60s, {0}, {1}), tensor("y", 59s, {0}, {2})});
  EXPECT_THAT(text, HasSubstr("'x'"));
  EXPECT_THAT(text, Not(HasSubstr("'y'")));
}

TEST(Stalls, CountWhatBeganToWaitLaterForTheSameRanks) {
  EXPECT_THAT(report({tensor("x", 60s, {0}, {1}), tensor("y", 59s, {0}, {1})}),
              StartsWith("2 tensors wait for rank 1 (host b, process 11), for 60.0 s: "));
}

TEST(Stalls, NameTheProcessSet) {
  StalledTensor x = tensor("x", 60s, {0}, {1});
  x.process_set = 3;
  EXPECT_THAT(report({x}), HasSubstr("'x' (allreduce(sum), process set 3)"));
}

TEST(Stalls, OfTwoRanksInOppositeOrderAreCalledSo) {
  const std::string text = report({tensor("a", 60s, {0}, {1}), tensor("b", 60s, {1}, {0})});
  EXPECT_THAT(text, HasSubstr("\n  these ranks call in different orders: rank 0 waits in 'a' for "
                              "rank 1, rank 1 waits in 'b' for rank 0; submit "));
  EXPECT_THAT(text, Not(HasSubstr("own code")));
}

TEST(Stalls, FindACircleOfThreeRanks) {
  const std::string text = report({tensor("a", 63s, {0}, {1}), tensor("b", 62s, {1}, {2}),
                                   tensor("c", 61s, {2}, {0}), tensor("d", 60s, {0, 1, 2}, {3})});
  EXPECT_THAT(text, HasSubstr("different orders: rank 0 waits in 'a' for rank 1, rank 1 waits in "
                              "'b' for rank 2, rank 2 waits in 'c' for rank 0;"));
  EXPECT_THAT(text, HasSubstr("rank 3 (host d) is not known to wait for a tensor: it is in its own "
                              "code, or came to one later"))
      << "its process is not known";
}

TEST(Stalls, AChainOfRanksIsNoCircle) {
  const std::string text = report({tensor("a", 60s, {0}, {1}), tensor("b", 60s, {1}, {2})});
  EXPECT_THAT(text, Not(HasSubstr("different orders")));
  EXPECT_THAT(text, HasSubstr("\n  rank 1 waits in 'b' for rank 2\n"));
}

TEST(Stalls, DoNotSayOfARankThatHasJoinedThatItIsInItsOwnCode) {
  const std::string text = report({tensor("a", 60s, {0}, {1})}, set_of({1}));
  EXPECT_THAT(text, HasSubstr("rank 1 has called join or shutdown"));
  EXPECT_THAT(text, Not(HasSubstr("own code")));
}

TEST(Stalls, OfManyRanksAndGroupsStayShort) {
  std::vector<StalledTensor> tensors;
  RankPlaces places;
  for (int rank = 0; rank < 100; ++rank) places.hosts.push_back("n" + std::to_string(rank));
  for (int i = 0; i < 50; ++i) {
    RankSet missing(100);
    for (int rank = 1 + i; rank < 100; ++rank) missing.add(rank);
    tensors.push_back({"t" + std::to_string(i), "barrier", 0, 60s, set_of({0}, 100), missing});
  }
  const std::string text = describe_stalls({tensors, RankSet(100)}, 60s, places);
  EXPECT_THAT(text, HasSubstr("rank 4 (host n4) and 95 more ranks, for 60.0 s: 't0' (barrier)\n"));
  EXPECT_THAT(text, HasSubstr("\n  and 42 that wait for others\n"));
  EXPECT_LT(text.size(), 3'000u);
}

TEST(Stalls, ThatEndTheJobNameTheVariableInOneLine) {
  const std::string text = describe_end({{tensor("x", 60s, {0}, {1})}, RankSet(4)}, 60s,
                                        {{"a", "b", "c", "d"}, {10, 11, 12, 0}});
  EXPECT_THAT(text, StartsWith("HVD_STALL_SHUTDOWN_TIME_SECONDS (60) ends the job, since tensors "
                               "have waited for so long: 1 tensor waits for rank 1 (host b, "
                               "process 11), for 60.0 s: 'x' (allreduce(sum)); rank 1 (host b"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST(StallPace, DoublesTheTimeUpToTenMinutes) {
  StallPace pace(60s);
  const Clock::time_point start{};
  std::vector<int> reports;
  for (int second = 60; second < 3'000; ++second) {
    if (pace.is_due(start + second * 1s, set_of({1}))) reports.push_back(second);
  }
  EXPECT_EQ(reports, (std::vector<int>{60, 180, 420, 900, 1'500, 2'100, 2'700}));
}

TEST(StallPace, BeginsAnewWhenOtherRanksAreMissing) {
  StallPace pace(60s);
  const Clock::time_point start{};
  EXPECT_TRUE(pace.is_due(start + 60s, set_of({1})));
  EXPECT_TRUE(pace.is_due(start + 180s, set_of({1})));
  EXPECT_FALSE(pace.is_due(start + 239s, set_of({2}))) << "never sooner than the stall time";
  EXPECT_TRUE(pace.is_due(start + 240s, set_of({2})));
  EXPECT_FALSE(pace.is_due(start + 359s, set_of({2})));
  EXPECT_TRUE(pace.is_due(start + 360s, set_of({2})));
}

TEST(StallPace, BeginsAnewOnceNothingHasWaited) {
  StallPace pace(60s);
  const Clock::time_point start{};
  EXPECT_TRUE(pace.is_due(start + 60s, set_of({1})));
  EXPECT_FALSE(pace.is_due(start + 61s, RankSet(4)));
  EXPECT_FALSE(pace.is_due(start + 119s, set_of({1})));
  EXPECT_TRUE(pace.is_due(start + 120s, set_of({1})));
}

}  // namespace
}  // namespace hvd
