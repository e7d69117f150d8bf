// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/stall_report.h"

#include <gtest/gtest.h>

#include <array>

namespace hvd {
namespace {

/// Ranks 4, 5 and 6 of the job on one host.
Communicator ranks_of_one_host() {
  Communicator communicator;
  communicator.rank = communicator.local_rank = 1;
  communicator.size = 3;
  communicator.world_ranks = {4, 5, 6};
  communicator.nodes = {{0, 1, 2}};
  communicator.hosts = {"a", "a", "a"};
  return communicator;
}

class StallReport : public testing::Test {
 protected:
  void launch(int local_rank, int batches) {
    LaunchBoard board(memory_, local_rank);
    for (int i = 0; i < batches; ++i) board.count_launched();
  }
  alignas(64) std::array<std::byte, 192> memory_{};
  StalledBatch batch_{.number = 1,
                      .what = "allreduce(sum) of 4 float32 tensors",
                      .stage = StalledBatch::Stage::kLaunched,
                      .time = std::chrono::seconds(60)};
};

TEST_F(StallReport, NamesTheRanksThatHaveNotLaunchedTheBatch) {
  ASSERT_LE(LaunchBoard::bytes(3), memory_.size());
  launch(0, 1);
  launch(1, 2);
  const LaunchBoard board(memory_, 1);
  EXPECT_EQ(stall_text(batch_, ranks_of_one_host(), board),
            "rank 5 on host a: batch 1 of process set 0 (allreduce(sum) of 4 float32 tensors) is "
            "on the GPU for 60 s; not in the streams of these ranks of this node: 4, 6");
  launch(0, 1);
  launch(2, 2);
  EXPECT_NE(stall_text(batch_, ranks_of_one_host(), board).find("all ranks of this node"),
            std::string::npos);
}

TEST_F(StallReport, NamesTheRanksThatHaveNotBegunTheBatchWhileItsBucketIsMade) {
  batch_.stage = StalledBatch::Stage::kBucket;
  LaunchBoard mine(memory_, 1);
  for (int i = 0; i < 2; ++i) mine.count_begun();
  LaunchBoard other(memory_, 0);
  other.count_begun();
  EXPECT_EQ(stall_text(batch_, ranks_of_one_host(), mine),
            "rank 5 on host a: batch 1 of process set 0 (allreduce(sum) of 4 float32 tensors) "
            "waits for all ranks to tell NCCL of its bucket for 60 s; these ranks of this node "
            "have not begun it: 4, 6");
  other.count_begun();
  LaunchBoard last(memory_, 2);
  for (int i = 0; i < 2; ++i) last.count_begun();
  EXPECT_NE(stall_text(batch_, ranks_of_one_host(), mine).find("all ranks of this node have done"),
            std::string::npos);
  EXPECT_TRUE(should_report(batch_, mine, 2));
}

TEST_F(StallReport, ComesFromTheFirstRankThatHasLaunchedAndFromThoseThatHaveNot) {
  launch(1, 2);
  launch(2, 2);
  const LaunchBoard board(memory_, 1);
  EXPECT_TRUE(should_report(batch_, board, 1));
  EXPECT_FALSE(should_report(batch_, board, 2));
  batch_.stage = StalledBatch::Stage::kGroup;
  EXPECT_TRUE(should_report(batch_, board, 2));
}

}  // namespace
}  // namespace hvd
