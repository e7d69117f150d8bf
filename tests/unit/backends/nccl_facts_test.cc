// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_facts.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace hvd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Ranks 0 and 1 on host a, rank 2 on host b, which are ranks 4, 5 and 6 of the job.
Communicator three_ranks() {
  Communicator communicator;
  communicator.size = 3;
  communicator.world_ranks = {4, 5, 6};
  communicator.nodes = {{0, 1}, {2}};
  communicator.hosts = {"a", "a", "b"};
  return communicator;
}

std::vector<NcclFacts> facts_of_three() {
  std::vector<NcclFacts> facts(3);
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    facts[rank].version = 22809;
    facts[rank].visible_gpus = 4;
    facts[rank].uuid[0] = static_cast<std::uint8_t>(rank + 1);
    put_text(facts[rank].bus_id, rank == 1 ? "0000:43:00.0" : "0000:1b:00.0");
    put_text(facts[rank].gpu, "Test GPU");
  }
  return facts;
}

NcclAgreement agree(const std::function<void(std::vector<NcclFacts>&)>& change) {
  auto facts = facts_of_three();
  change(facts);
  return agree_on_nccl(facts, three_ranks());
}

TEST(NcclFacts, AgreeWhereEveryRankHasAGpuAndTheSameNccl) {
  const NcclAgreement agreement = agree([](auto&) {});
  EXPECT_TRUE(agreement.status.is_ok()) << agreement.status.message();
  EXPECT_TRUE(agreement.notices.empty());
}

TEST(NcclFacts, AddFloat8WhereEveryRankCan) {
  const auto all = [](auto& facts) {
    for (NcclFacts& fact : facts) fact.reduces_float8 = 1;
  };
  EXPECT_TRUE(agree(all).reduces_float8);
  const auto all_but_one = [&](auto& facts) {
    all(facts);
    facts[1].reduces_float8 = 0;
  };
  EXPECT_FALSE(agree(all_but_one).reduces_float8);
}

TEST(NcclFacts, RefuseWithASentenceThatNamesTheRanks) {
  struct Case {
    std::function<void(std::vector<NcclFacts>&)> change;
    Code code;
    std::string_view start;
    std::string_view advice;
  };
  const auto share = [](std::vector<NcclFacts>& facts) {
    facts[1].uuid = facts[0].uuid;
    for (NcclFacts& fact : facts) fact.shares_gpu = 1;
  };
  const std::vector<Case> cases = {
      {[](auto& facts) { put_text(facts[2].problem, "no NCCL was found"); }, Code::kUnsupported,
       "rank 6 on host b: no NCCL was found", ""},
      {[](auto& facts) {
         put_text(facts[0].problem, "no NCCL was found");
         put_text(facts[1].problem, "the GPU fell off the bus");
         facts[1].is_failed = 1;
       },
       Code::kInvalidArgument, "rank 5 on host a: the GPU fell off the bus", ""},
      {[](auto& facts) { facts[1].version = 22703; }, Code::kMismatch,
       "rank 5 on host a has NCCL 2.27.3, and rank 4 on host a has 2.28.9", "HVD_NCCL_LIBRARY"},
      {[](auto& facts) { facts[2].version = 22803; }, Code::kMismatch,
       "rank 6 on host b has NCCL 2.28.3, and rank 4 on host a has 2.28.9", "to the last number"},
      {[](auto& facts) { facts[1].uuid = facts[0].uuid; }, Code::kInvalidArgument,
       "rank 4 on host a and rank 5 on host a use the same GPU (Test GPU, 0000:1b:00.0)",
       "--gpu-bind=none"},
      {[](auto& facts) { facts[1].registers = 0; }, Code::kMismatch,
       "rank 5 on host a has HVD_NCCL_REGISTER=0, and rank 4 on host a has 1", "the same"},
      // Two MIG instances.
      {[](auto& facts) { facts[1].bus_id = facts[0].bus_id; }, Code::kInvalidArgument,
       "rank 4 on host a and rank 5 on host a use the same GPU (Test GPU, 0000:1b:00.0)",
       "which NCCL refuses"},
      {share, Code::kInvalidArgument, "rank 4 on host a and rank 5 on host a use the same GPU",
       "another NCCL_HOSTID"},
  };
  for (const Case& test : cases) {
    const Status status = agree(test.change).status;
    EXPECT_EQ(status.code(), test.code) << status.message();
    EXPECT_EQ(status.message().rfind(test.start, 0), 0U) << status.message();
    EXPECT_NE(status.message().find(test.advice), std::string::npos) << status.message();
  }
}

TEST(NcclFacts, LetRanksShareAGpuUnderDifferentHostIds) {
  const NcclAgreement agreement = agree([](auto& facts) {
    facts[1].uuid = facts[0].uuid;
    for (NcclFacts& fact : facts) fact.shares_gpu = 1;
    facts[0].host_id = 7;
    facts[1].host_id = 8;
  });
  EXPECT_TRUE(agreement.status.is_ok()) << agreement.status.message();
}

/// As where each rank sees the GPUs of all.
void see_all(std::vector<NcclFacts>& facts, bool in_reach = true) {
  for (NcclFacts& fact : facts) {
    for (const NcclFacts& other : facts) {
      if (&fact != &other) fact.add_peer(other.uuid, in_reach);
    }
  }
}

TEST(NcclFacts, NameTheFlagOfSlurmThatKeepsGpusApart) {
  const auto confine = [](auto& facts) {
    for (NcclFacts& fact : facts) {
      fact.visible_gpus = 1;
      fact.is_confined = 1;
    }
  };
  const NcclAgreement confined = agree(confine);
  EXPECT_TRUE(confined.status.is_ok());
  EXPECT_THAT(confined.notices,
              ElementsAre(AllOf(StartsWith("ranks 4 and 5 on host a may not open"),
                                HasSubstr("--gpus-per-task"),
                                HasSubstr("--gres-flags=allow-task-sharing"))));
  // One rank alone sees what is closed to the other.
  const NcclAgreement half = agree([&](auto& facts) {
    confine(facts);
    facts[0].add_peer(facts[1].uuid, true);
  });
  EXPECT_EQ(half.notices, confined.notices);
  // One GPU by CUDA_VISIBLE_DEVICES is not an obstacle.
  const NcclAgreement masked = agree([](auto& facts) {
    for (NcclFacts& fact : facts) fact.visible_gpus = 1;
  });
  EXPECT_THAT(masked.notices, IsEmpty());
  // Nor are GPUs of other jobs.
  const NcclAgreement shared_node = agree([](auto& facts) {
    see_all(facts);
    for (NcclFacts& fact : facts) fact.is_confined = 1;
  });
  EXPECT_THAT(shared_node.notices, IsEmpty());
}

TEST(NcclFacts, NameTheRanksWhoseGpusLackPeerAccess) {
  EXPECT_THAT(agree([](auto& facts) { see_all(facts, false); }).notices,
              ElementsAre(AllOf(StartsWith("ranks 4 and 5 on host a have GPUs without peer access"),
                                HasSubstr("through host memory"), HasSubstr("ACS"))));
  EXPECT_THAT(agree([](auto& facts) { see_all(facts); }).notices, IsEmpty());
  // Of GPUs that no rank uses nobody wants to know.
  EXPECT_THAT(agree([](auto& facts) { facts[0].add_peer({9, 9}, false); }).notices, IsEmpty());
}

TEST(NcclFacts, CountThePairsOfTheFirstNodeThatLacksPeerAccess) {
  std::vector<NcclFacts> facts(10);
  Communicator communicator;
  communicator.size = 10;
  communicator.nodes = {{0, 1}, {2, 3, 4, 5}, {6, 7, 8, 9}};
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    facts[rank].uuid[0] = static_cast<std::uint8_t>(rank + 1);
    put_text(facts[rank].bus_id, std::to_string(rank));
    facts[rank].visible_gpus = 4;
    communicator.hosts.push_back(rank < 2 ? "a" : rank < 6 ? "b" : "c");
  }
  for (std::size_t one = 2; one < 10; ++one) {
    for (std::size_t other = 2; other < 10; ++other) {
      // Two and two reach each other.
      if (one != other) facts[one].add_peer(facts[other].uuid, one / 2 == other / 2);
    }
  }
  EXPECT_THAT(
      agree_on_nccl(facts, communicator).notices,
      ElementsAre(StartsWith("ranks 2 and 4 on host b (and 3 more pairs there) have GPUs")));
}

TEST(NcclFacts, TellOfNoMoreGpusThanThereIsRoomFor) {
  NcclFacts facts;
  for (std::uint8_t i = 0; i < 20; ++i) facts.add_peer({i}, i % 2 == 0);
  EXPECT_EQ(facts.peers, NcclFacts::kMostPeers);
  EXPECT_EQ(facts.peers_out_of_reach, 0xaaaaU);
}

TEST(NcclFacts, NoteGpusOfDifferentKinds) {
  const NcclAgreement agreement = agree([](auto& facts) { put_text(facts[2].gpu, "Other GPU"); });
  EXPECT_TRUE(agreement.status.is_ok());
  ASSERT_EQ(agreement.notices.size(), 1U);
  EXPECT_NE(agreement.notices[0].find("rank 6 on host b has a GPU Other GPU"), std::string::npos);
}

TEST(NcclFacts, CutTextsThatDoNotFit) {
  std::array<char, 4> field{};
  put_text(field, "abcdef");
  EXPECT_EQ(text_of(field), "abc");
}

TEST(NcclFacts, SeeGpusThatAreClosedToTheProcess) {
  const std::string folder = testing::TempDir() + "/nccl_facts_dev";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink("nowhere", folder + "/nvidiactl");
  std::filesystem::create_symlink("nowhere", folder + "/nvidia-uvm");
  std::ofstream(folder + "/nvidia0");
  EXPECT_FALSE(is_confined_to(1, folder));
  std::filesystem::create_symlink("nowhere", folder + "/nvidia1");
  EXPECT_TRUE(is_confined_to(1, folder));
  std::ofstream(folder + "/nvidia2");
  EXPECT_FALSE(is_confined_to(1, folder)) << "it may open one that it does not look at";
  EXPECT_TRUE(is_confined_to(2, folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hvd
