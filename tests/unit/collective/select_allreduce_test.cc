// SPDX-License-Identifier: Apache-2.0
#include "collective/select_allreduce.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

NodeWork work_of(int nodes, std::size_t bytes) {
  return {.nodes = nodes,
          .lanes = bytes > (16U << 10) ? 2 : 1,
          .partial_bytes = bytes,
          .result_bytes = bytes,
          .round_bytes = 128U << 10};
}

TEST(SelectAllreduce, SendsDirectlyBetweenTwoNodes) {
  for (std::size_t bytes = 8; bytes < (1U << 30); bytes *= 4) {
    EXPECT_EQ(select_allreduce(work_of(2, bytes)).algorithm, NodeAlgorithm::kDirect) << bytes;
  }
}

TEST(SelectAllreduce, DoublesWhereManyNodesReduceLittle) {
  EXPECT_EQ(select_allreduce(work_of(3, 8)).algorithm, NodeAlgorithm::kDirect);
  EXPECT_EQ(select_allreduce(work_of(64, 8)).algorithm, NodeAlgorithm::kRecursiveDoubling);
  EXPECT_EQ(select_allreduce(work_of(65, 8)).algorithm, NodeAlgorithm::kRecursiveDoubling);
}

TEST(SelectAllreduce, CutsWhatIsLarge) {
  const auto few = select_allreduce(work_of(3, 100'000'000)).algorithm;
  EXPECT_EQ(few, NodeAlgorithm::kPairwise);
  EXPECT_EQ(select_allreduce(work_of(64, 100'000'000)).algorithm, NodeAlgorithm::kHalvingDoubling);
}

TEST(SelectAllreduce, FoldsHalfTypesOnTheWireAtOnce) {
  for (const int nodes : {2, 5, 64}) {
    for (const std::size_t bytes : {8U, 1U << 20}) {
      NodeWork work = work_of(nodes, bytes);
      work.at_once = true;
      const NodeSelection selection = select_allreduce(work);
      const bool is_small = nodes == 2 || bytes == 8;
      EXPECT_EQ(selection.algorithm, is_small ? NodeAlgorithm::kDirect : NodeAlgorithm::kPairwise)
          << nodes << " nodes, " << bytes << " bytes";
      EXPECT_GT(selection.estimate_ns, 0);
    }
  }
}

TEST(SelectAllreduce, OffersEachGoalOnlyWhatServesIt) {
  for (const int nodes : {2, 3, 16, 100}) {
    for (const std::size_t bytes : {8U, 1U << 16, 1U << 26}) {
      NodeWork work = work_of(nodes, bytes);
      work.goal = NodeGoal::kOwnShare;
      EXPECT_EQ(select_allreduce(work).algorithm, NodeAlgorithm::kPairwise);
      work.goal = NodeGoal::kOneNode;
      const auto algorithm = select_allreduce(work).algorithm;
      EXPECT_NE(algorithm, NodeAlgorithm::kRecursiveDoubling);
      EXPECT_NE(algorithm, NodeAlgorithm::kHalvingDoubling);
    }
  }
}

TEST(SelectAllreduce, SaysWhy) {
  const std::string reason = select_allreduce(work_of(64, 8)).reason();
  EXPECT_NE(reason.find("allreduce of 8 bytes between 64 nodes over 1 lane: recursive doubling"),
            std::string::npos)
      << reason;
  const std::string choices = describe_allreduce_choices(work_of(64, 0));
  EXPECT_EQ(choices.rfind("recursive doubling up to ", 0), 0U) << choices;
  EXPECT_EQ(describe_allreduce_choices(work_of(2, 0)), "direct");
}

}  // namespace
}  // namespace hvd
