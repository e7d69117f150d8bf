// SPDX-License-Identifier: Apache-2.0
#include "engine/epoch.h"

#include <gmock/gmock.h>

#include "ranks_by_hand.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EpochOf : public testing::TestWithParam<std::vector<int>> {
 protected:
  EpochOf() : ranks_(GetParam()) {}

  std::vector<PendingPtr> submit_everywhere(const std::string& name) {
    std::vector<PendingPtr> all;
    for (int rank = 0; rank < ranks_.size(); ++rank) all.push_back(ranks_.submit(rank, name));
    return all;
  }

  RanksByHand ranks_;
};

TEST_P(EpochOf, RunsWhatAllRanksSubmitted) {
  const auto all = submit_everywhere("t");
  ranks_.run();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    EXPECT_TRUE(all[static_cast<std::size_t>(rank)]->done.load());
    EXPECT_TRUE(all[static_cast<std::size_t>(rank)]->status.is_ok());
    Lock lock(ranks_.epoch(rank).progress());
    EXPECT_EQ(ranks_.epoch(rank).statistics().batches, 1U);
    EXPECT_FALSE(ranks_.epoch(rank).may_be_needed()) << "nothing is under way";
  }
}

TEST_P(EpochOf, WaitsForTheRankThatSubmitsLast) {
  std::vector<PendingPtr> early;
  for (int rank = 0; rank + 1 < ranks_.size(); ++rank) early.push_back(ranks_.submit(rank, "t"));
  ranks_.run();
  for (const auto& pending : early) EXPECT_FALSE(pending->done.load());
  ranks_.submit(ranks_.size() - 1, "t");
  ranks_.run();
  for (const auto& pending : early) EXPECT_TRUE(pending->done.load());
}

TEST_P(EpochOf, WaitsForTheBackend) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    ranks_.at(rank).plan.progress = Progress::kBlocked;
  }
  const auto all = submit_everywhere("t");
  ranks_.run();
  EXPECT_FALSE(all.front()->done.load());
  {
    Lock lock(ranks_.epoch(0).progress());
    EXPECT_TRUE(ranks_.epoch(0).may_be_needed());
  }
  ranks_.at(0).plan.progress = Progress::kDone;
  ranks_.run();
  EXPECT_TRUE(all.front()->done.load());
  EXPECT_FALSE(all.back()->done.load()) << "its own backend is not done";
}

TEST_P(EpochOf, EndsEverywhereWithTheCauseOfTheRankThatAborts) {
  const int last = ranks_.size() - 1;
  const auto waits = ranks_.submit(0, "never complete");
  ranks_.run();
  {
    Lock lock(ranks_.epoch(last).progress());
    ranks_.epoch(last).abort("the disk is full");
  }
  ranks_.run();
  ASSERT_TRUE(waits->done.load());
  EXPECT_EQ(waits->status.code(), Code::kPeerLost);
  EXPECT_THAT(std::string(waits->status.message()), HasSubstr("the disk is full"));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Status why = ranks_.epoch(rank).ending().why();
    EXPECT_EQ(why.code(), Code::kPeerLost) << "rank " << rank;
    EXPECT_THAT(std::string(why.message()), HasSubstr("is lost: the disk is full"));
    EXPECT_THAT(ranks_.at(rank).losses, ElementsAre(last));
  }
}

TEST_P(EpochOf, EndsEverywhereWhereABackendFailsOnOneRank) {
  TaskPlan& plan = ranks_.at(0).plan;
  plan.progress = Progress::kFailed;
  plan.failure = Status(Code::kSystem, "no buffer space");
  const auto all = submit_everywhere("t");
  ranks_.run();
  EXPECT_EQ(all.front()->status.code(), Code::kSystem);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    EXPECT_THAT(std::string(ranks_.epoch(rank).ending().why().message()),
                HasSubstr("failed in a collective: no buffer space"));
  }
}

TEST_P(EpochOf, EndsTogetherOnceAllHaveLeft) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    ASSERT_TRUE(ranks_.epoch(rank).ending().begin_to_leave());
    EXPECT_FALSE(ranks_.epoch(rank).ending().begin_to_leave()) << "only once";
    Lock lock(ranks_.epoch(rank).progress());
    ranks_.epoch(rank).leave();
  }
  ranks_.run();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    EXPECT_TRUE(ranks_.epoch(rank).ending().left_together());
    EXPECT_EQ(ranks_.epoch(rank).ending().why().code(), Code::kAborted);
    EXPECT_THAT(ranks_.at(rank).losses, IsEmpty());
  }
}

TEST_P(EpochOf, FailsWhatComesAfterItsEnd) {
  {
    Lock lock(ranks_.epoch(0).progress());
    ranks_.epoch(0).close();
  }
  const auto late = ranks_.submit(0, "late");
  EXPECT_FALSE(ranks_.step(0)) << "nothing moves any more";
  ASSERT_TRUE(late->done.load());
  EXPECT_THAT(std::string(late->status.message()), HasSubstr("hvd was shut down"));
}

TEST_P(EpochOf, IsFollowedByAnotherOne) {
  {
    Lock lock(ranks_.epoch(0).progress());
    ranks_.epoch(0).abort("an end");
  }
  ranks_.run();
  ranks_.open();
  const auto all = submit_everywhere("t");
  ranks_.run();
  for (const auto& pending : all) {
    ASSERT_TRUE(pending->done.load());
    EXPECT_TRUE(pending->status.is_ok()) << pending->status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, EpochOf,
                         testing::Values(std::vector<int>{2}, std::vector<int>{3, 1},
                                         std::vector<int>{1, 1}));

TEST(Epoch, TellsAllNodesWhatAProcessSaidBeforeItEnded) {
  RanksByHand ranks({3, 1});
  {
    Lock lock(ranks.epoch(1).progress());
    ranks.epoch(1).leave_farewell("out of memory in the data loader");
  }
  {
    Lock lock(ranks.epoch(0).progress());
    ranks.epoch(0).handle({Watch::Event::Kind::kProcessEnded, 0, 1});
  }
  ranks.run();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_THAT(std::string(ranks.epoch(rank).ending().why().message()),
                HasSubstr("out of memory in the data loader"));
  }
}

TEST(Epoch, RefusesNodeMemoryThatIsTooSmall) {
  auto wirings = wire_threads({.size = 1, .memory_bytes = [](int) { return std::size_t{4096}; }});
  ASSERT_TRUE(wirings.is_ok());
  Timeline timeline(0, "host");
  Completion completion(1);
  Submission submission(timeline);
  const auto epoch = Epoch::open(std::move(wirings.value()[0]), {}, EngineOptions{},
                                 {submission, completion, timeline, [] {}});
  EXPECT_EQ(epoch.status().code(), Code::kInternal);
  EXPECT_THAT(std::string(epoch.status().message()), HasSubstr("bytes of node memory"));
}

}  // namespace
}  // namespace hvd
