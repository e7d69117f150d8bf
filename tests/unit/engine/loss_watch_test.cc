// SPDX-License-Identifier: Apache-2.0
#include "engine/loss_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Rank 1 of two nodes with two ranks each.
class LossWatchTest : public testing::Test {
 protected:
  LossWatchTest() {
    world_.rank = 1;
    world_.size = 4;
    world_.local_rank = 1;
    world_.world_ranks = {0, 1, 2, 3};
    world_.nodes = {{0, 1}, {2, 3}};
    world_.hosts = {"a", "a", "b", "b"};
    for (int rank = 0; rank < 4; ++rank) {
      peers_.push_back({.rank = rank,
                        .host = world_.hosts[static_cast<std::size_t>(rank)],
                        .node = rank / 2,
                        .local_rank = rank % 2,
                        .pid = 100 + rank,
                        .mpi = {}});
    }
    options_.link_timeout = milliseconds(3'000);
    options_.silence_timeout = milliseconds(20'000);
  }

  Communicator world_;
  std::vector<PeerInfo> peers_;
  EngineOptions options_;
  LossWatch watch_{world_, peers_, options_};
  const Clock::time_point start_ = Clock::now();
};

TEST_F(LossWatchTest, NamesRankHostAndProcess) {
  const Loss loss = watch_.loss_of(2, "no answer");
  EXPECT_EQ(loss.rank, 2);
  EXPECT_EQ(loss.text, "rank 2 on host b (process 102) is lost: no answer");
}

TEST_F(LossWatchTest, GivesOthersTimeToSayWhoseTheLossIs) {
  watch_.suspect(watch_.loss_of(2, "closed"), start_);
  EXPECT_FALSE(watch_.take_due(start_, false).has_value());
  EXPECT_TRUE(watch_.suspects());
  const auto due = watch_.take_due(start_ + LossWatch::kPatience, false);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->rank, 2);
  EXPECT_FALSE(watch_.suspects()) << "taken once";
}

TEST_F(LossWatchTest, WaitsForAHostThatDoesNotAnswerUntilTheLinkTimeout) {
  watch_.suspect(watch_.loss_of(2, "closed"), start_);
  const auto late = start_ + LossWatch::kPatience + options_.link_timeout;
  EXPECT_FALSE(watch_.take_due(late - milliseconds(1), true).has_value());
  EXPECT_TRUE(watch_.take_due(late, true).has_value());
}

TEST_F(LossWatchTest, KeepsTheFirstSuspicionThatNamesAPeer) {
  struct Case {
    std::vector<int> suspected;
    int kept;
    std::string why;
  };
  const Case cases[] = {
      {{2, 3}, 2, "the first peer"},
      {{2, 1}, 2, "a failure of this rank's own does not replace a peer"},
      {{1, 3}, 3, "a peer replaces a failure of this rank's own"},
  };
  for (const Case& one : cases) {
    LossWatch watch(world_, peers_, options_);
    for (const int rank : one.suspected) watch.suspect(watch.loss_of(rank, "closed"), start_);
    EXPECT_EQ(watch.take_due(start_ + LossWatch::kPatience, false)->rank, one.kept) << one.why;
  }
}

TEST_F(LossWatchTest, DoesNotPutASuspicionOffForANewOne) {
  watch_.suspect({1, "a failure of ours"}, start_);
  watch_.suspect(watch_.loss_of(3, "closed"), start_ + milliseconds(90));
  EXPECT_TRUE(watch_.take_due(start_ + LossWatch::kPatience, false).has_value());
}

TEST_F(LossWatchTest, LosesAProcessThatIsStoppedForLongerThanTheSetting) {
  // Looks are 5 s apart: 20 s lie between the first and the fifth.
  EXPECT_FALSE(watch_.judge({0, 4, "stopped"}).has_value());
  const auto loss = watch_.judge({0, 5, "stopped"});
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(loss->rank, 0);
  EXPECT_THAT(loss->text, HasSubstr("stopped for 20 s or longer; HVD_SILENCE_TIMEOUT_SECONDS "
                                    "allows 20"));
}

TEST_F(LossWatchTest, NeverLosesAStoppedProcessWhereTheSettingIsZero) {
  options_.silence_timeout = milliseconds(0);
  EXPECT_FALSE(watch_.judge({0, 1'000, "stopped"}).has_value());
}

}  // namespace
}  // namespace hvd
