// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <vector>

namespace hvd {
namespace {

/// Two ranks on two nodes, both with an initialised Open MPI and a fabric.
std::vector<MpiFacts> good_facts() {
  MpiFacts facts;
  facts.is_initialised = facts.is_thread_multiple = true;
  facts.size = 2;
  facts.library = "Open MPI v4.1.4";
  facts.thread_level = "MPI_THREAD_MULTIPLE";
  facts.fabric = "mlx5_0";
  return {facts, facts};
}

MpiPlan plan(const std::vector<MpiFacts>& facts, int nodes = 2) {
  std::vector<PeerInfo> peers;
  for (int rank = 0; rank < static_cast<int>(facts.size()); ++rank) {
    PeerInfo& peer = peers.emplace_back();
    peer.rank = rank;
    peer.host = "n" + std::to_string(rank);
    peer.node = rank % nodes;
    peer.mpi = encode(facts[static_cast<std::size_t>(rank)]);
  }
  return plan_mpi(peers);
}

TEST(MpiPlan, TakesMpiWhereItIsInitialisedOnSeveralNodesWithAFabric) {
  const MpiPlan chosen = plan(good_facts());
  EXPECT_TRUE(chosen.use);
  EXPECT_EQ(chosen.reason, "Open MPI v4.1.4, which the program initialised, and fabric mlx5_0");
}

TEST(MpiPlan, TakesMpiThatIsAskedForWithoutAFabricAndUninitialised) {
  auto facts = good_facts();
  for (MpiFacts& one : facts) {
    one.is_wanted = true;
    one.is_initialised = one.is_thread_multiple = false;
    one.fabric.clear();
  }
  EXPECT_TRUE(plan(facts).use);
  EXPECT_EQ(plan(facts).reason, "Open MPI v4.1.4, started by hvd");
}

TEST(MpiPlan, DeclinesWithASentenceThatNamesTheRank) {
  struct Case {
    std::function<void(MpiFacts&)> change;
    std::string_view reason;
  };
  const std::vector<Case> cases = {
      {[](MpiFacts& facts) { facts.problem = "the program has no MPI"; }, "the program has no MPI"},
      {[](MpiFacts& facts) { facts.is_wanted = true; }, "not set on every rank"},
      {[](MpiFacts& facts) { facts.library = "MPICH Version: 4.0.2"; }, "rank 0 has Open MPI"},
      {[](MpiFacts& facts) { facts.is_initialised = false; }, "on some ranks and not on others"},
      {[](MpiFacts& facts) {
         facts.is_thread_multiple = false;
         facts.thread_level = "MPI_THREAD_SERIALIZED";
       },
       "initialised MPI with MPI_THREAD_SERIALIZED; call MPI_Init_thread"},
      {[](MpiFacts& facts) { facts.size = 1; }, "MPI_COMM_WORLD has 1 ranks and the job 2"},
      {[](MpiFacts& facts) { facts.fabric.clear(); }, "no fabric"},
  };
  for (const Case& test : cases) {
    auto facts = good_facts();
    test.change(facts[1]);
    const MpiPlan declined = plan(facts);
    EXPECT_FALSE(declined.use) << test.reason;
    EXPECT_NE(declined.reason.find("rank 1 on host n1"), std::string::npos) << declined.reason;
    EXPECT_NE(declined.reason.find(test.reason), std::string::npos) << declined.reason;
  }
}

TEST(MpiPlan, LeavesOneNodeToSharedMemory) {
  auto facts = good_facts();
  for (MpiFacts& one : facts) one.is_wanted = true;
  EXPECT_FALSE(plan(facts, 1).use);
}

TEST(MpiPlan, DeclinesFactsThatAreNone) {
  std::vector<PeerInfo> peers(2);
  peers[1].node = 1;
  peers[1].mpi = "?";
  EXPECT_FALSE(plan_mpi(peers).use);
}

TEST(MpiPlan, FindsTheFirstFabricDevice) {
  const std::string root = testing::TempDir() + "/mpi_plan_sys";
  std::filesystem::remove_all(root);
  EXPECT_EQ(find_fabric(root), "");
  std::filesystem::create_directories(root + "/class/infiniband");
  EXPECT_EQ(find_fabric(root), "");
  std::filesystem::create_directories(root + "/class/cxi/cxi0");
  EXPECT_EQ(find_fabric(root), "cxi0");
  std::filesystem::create_directories(root + "/class/infiniband/mlx5_1");
  std::filesystem::create_directories(root + "/class/infiniband/mlx5_0");
  EXPECT_EQ(find_fabric(root), "mlx5_0");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace hvd
