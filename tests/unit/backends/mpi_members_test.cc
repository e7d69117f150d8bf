// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_members.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvd {
namespace {

using Lists = std::vector<std::vector<int>>;

/// Rank r of the job is rank size - 1 - r of MPI_COMM_WORLD, and gives `members[r]`.
std::vector<MpiMembership> reversed(const Lists& members) {
  std::vector<MpiMembership> by_rank;
  const int size = static_cast<int>(members.size());
  for (int rank = 0; rank < size; ++rank) {
    by_rank.push_back({size - 1 - rank, size, members[static_cast<std::size_t>(rank)]});
  }
  return by_rank;
}

Status failure(const std::vector<MpiMembership>& by_rank) {
  return sets_of_members(by_rank).status();
}

TEST(MpiMembers, BecomeRanksOfTheJob) {
  const auto sets = sets_of_members(reversed({{}, {2, 0}, {}, {2, 0}}));
  ASSERT_TRUE(sets.is_ok()) << sets.status().message();
  EXPECT_EQ(sets.value(), (Lists{{1, 3}}));
}

TEST(MpiMembers, MakeASetOfEachPartOfASplitWorld) {
  const auto sets = sets_of_members(reversed({{3, 1}, {2, 0}, {1, 3}, {0, 2}}));
  ASSERT_TRUE(sets.is_ok()) << sets.status().message();
  EXPECT_EQ(sets.value(), (Lists{{0, 2}, {1, 3}}));
}

TEST(MpiMembers, MustAllGiveTheCommunicator) {
  const Status status = failure(reversed({{2, 1}, {}, {}}));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_EQ(status.message(),
            "ranks disagree: rank 0 gives the communicator of ranks [0, 1], rank 1 gives "
            "MPI_COMM_NULL; all members of a communicator must give it");
}

TEST(MpiMembers, OutsideOfTheJobAreNamed) {
  for (const int outsider : {-1, 2, 7}) {
    const Status status = failure(reversed({{1, outsider}, {}}));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("not a rank of this job (2 ranks)"), std::string::npos)
        << status.message();
  }
}

TEST(MpiMembers, OfWorldsOfOneRankEachAreRefused) {
  const Status status = failure({{0, 1, {0}}, {0, 1, {0}}});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("both rank 0 of an MPI_COMM_WORLD of 1"), std::string::npos)
      << status.message();
}

TEST(MpiMembers, OfNoCommunicatorAtAllAreRefused) {
  EXPECT_EQ(failure(reversed({{}, {}})).code(), Code::kInvalidArgument);
}

TEST(MpiMembers, TravelAsBytes) {
  const MpiMembership mine{2, 4, {3, 2}};
  const auto read = decode_membership(encode(mine));
  ASSERT_TRUE(read.is_ok());
  EXPECT_EQ(read.value().rank, 2);
  EXPECT_EQ(read.value().size, 4);
  EXPECT_EQ(read.value().members, mine.members);
  EXPECT_FALSE(decode_membership(encode({4, 4, {}})).is_ok());
  EXPECT_FALSE(decode_membership("short").is_ok());
}

TEST(MpiMembers, NeedTheAddressOfAHandleAndAnMpi) {
  const int handle = 0;
  EXPECT_EQ(members_of(nullptr, sizeof handle).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(members_of(&handle, sizeof handle).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace hvd
