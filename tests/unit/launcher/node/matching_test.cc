// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hvd {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuSet range(int first, int count) {
  CpuSet cpus;
  for (int cpu = first; cpu < first + count; ++cpu) cpus.push_back(cpu);
  return cpus;
}

/// `numas` NUMA nodes of `cores` cores without SMT in `packages` packages, and a GPU near each of
/// `gpu_numas`.
NodeTopology node(int packages, int numas, int cores, const std::vector<int>& gpu_numas) {
  NodeTopology topology;
  for (int numa = 0; numa < numas; ++numa) {
    topology.numas.push_back({numa, range(numa * cores, cores), 0});
    for (int core = 0; core < cores; ++core) {
      topology.cores.push_back({{numa * cores + core}, numa * packages / numas, numa});
    }
  }
  for (const int numa : gpu_numas) {
    NodeGpu gpu;
    gpu.index = static_cast<int>(topology.gpus.size());
    gpu.numa = numa;
    topology.gpus.push_back(gpu);
  }
  return topology;
}

MatchRequest ranks(int count, const std::vector<int>& gpus = {}) {
  MatchRequest request;
  request.local_size = count;
  request.gpus = gpus;
  return request;
}

std::vector<int> gpus_of(const Matching& matching) {
  std::vector<int> gpus;
  for (const MatchedRank& rank : matching.ranks) gpus.push_back(rank.gpu);
  return gpus;
}

std::vector<int> first_cpus(const Matching& matching) {
  std::vector<int> cpus;
  for (const MatchedRank& rank : matching.ranks) cpus.push_back(rank.cpus.front());
  return cpus;
}

TEST(Matching, FreeMasksFollowTheGpus) {
  const NodeTopology reversed = node(1, 4, 4, {3, 2, 1, 0});
  const Matching matching = match_node(reversed, ranks(4, {0, 1, 2, 3}));
  EXPECT_THAT(gpus_of(matching), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(first_cpus(matching), ElementsAre(12, 8, 4, 0));
  EXPECT_THAT(matching.ranks[0].numas, ElementsAre(3));
  EXPECT_THAT(matching.notes, IsEmpty());
}

TEST(Matching, GpusFollowMasksThatAreFixed) {
  MatchRequest request = ranks(4, {0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) request.rank_masks.push_back(range(rank * 4, 4));
  const Matching matching = match_node(node(1, 4, 4, {3, 2, 1, 0}), request);
  EXPECT_THAT(gpus_of(matching), ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(matching.ranks[1].cpus, range(4, 4));
}

TEST(Matching, EqualsKeepTheirOrder) {
  EXPECT_THAT(gpus_of(match_node(node(1, 1, 8, {0, 0, 0, 0}), ranks(4, {2, 0, 3, 1}))),
              ElementsAre(2, 0, 3, 1));
  // All ranks have the whole node.
  MatchRequest request = ranks(3, {0, 1, 2});
  request.rank_masks.assign(3, range(0, 8));
  EXPECT_THAT(gpus_of(match_node(node(2, 2, 4, {1, 0, 1}), request)), ElementsAre(0, 1, 2));
}

TEST(Matching, ANodeInPartUsesTheGpusNearItsCores) {
  MatchRequest request = ranks(2, {0, 1, 2, 3});
  request.allowed = range(8, 8);
  const Matching matching = match_node(node(2, 2, 8, {0, 0, 1, 1}), request);
  EXPECT_THAT(gpus_of(matching), ElementsAre(2, 3));
  EXPECT_THAT(matching.idle_entries, ElementsAre(0, 1));
  EXPECT_THAT(matching.notes, Contains("GPU entry 0 stays idle"));
}

TEST(Matching, SharesMeetTheNumaNodeEvenWhereNeighboursWouldNot) {
  // Two ranks with 6 of 12 cores each, on three NUMA nodes: near 0 and near 1.
  const Matching matching = match_node(node(1, 3, 4, {0, 1}), ranks(2, {0, 1}));
  EXPECT_EQ(matching.ranks[0].far_cores + matching.ranks[1].far_cores, 4);
  EXPECT_THAT(matching.ranks[0].numas, ElementsAre(0, 2));
  EXPECT_THAT(matching.ranks[1].numas, ElementsAre(1, 2));
}

TEST(Matching, SaysWhenARankIsFar) {
  MatchRequest request = ranks(1, {0});
  request.allowed = range(0, 4);
  const Matching matching = match_node(node(2, 2, 4, {1}), request);
  EXPECT_TRUE(matching.ranks[0].is_far);
  EXPECT_THAT(matching.notes, ElementsAre(HasSubstr("4 of its 4 cores are not nearest")));
}

TEST(Matching, SharesGpusInTurn) {
  const Matching matching = match_node(node(1, 1, 8, {0, 0}), ranks(4, {0, 1}));
  EXPECT_THAT(gpus_of(matching), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(matching.notes, Contains("local ranks 0,2 share GPU entry 0"));
}

TEST(Matching, DividesWithoutGpus) {
  const Matching matching = match_node(node(2, 2, 4, {}), ranks(3));
  EXPECT_THAT(gpus_of(matching), Each(-1));
  EXPECT_THAT(matching.ranks[0].cpus, ElementsAre(0, 1, 2));
  EXPECT_THAT(matching.ranks[2].cpus, ElementsAre(6, 7));
  EXPECT_TRUE(match_node(node(1, 1, 1, {}), ranks(2)).ranks[0].cpus.empty());
  EXPECT_TRUE(match_node(node(1, 1, 1, {}), ranks(0)).ranks.empty());
}

TEST(Matching, TakesEntriesWhosePlaceIsNotKnown) {
  const Matching matching = match_node(node(1, 2, 2, {1}), ranks(2, {-1, 0}));
  EXPECT_EQ(matching.ranks[0].entry, 0);
  EXPECT_EQ(matching.ranks[0].gpu, -1);
  EXPECT_THAT(matching.ranks[1].numas, ElementsAre(1));
}

TEST(Matching, TakesTheNearestNicAndSharesEqualOnes) {
  NodeTopology topology = node(2, 2, 4, {0, 0, 1, 1});
  topology.nics.resize(3);
  const auto near = PciDistance::kHostBridge;
  const auto far = PciDistance::kSystem;
  topology.gpu_to_nic = {{near, far, near}, {near, far, near}, {far, near, far}, {far, near, far}};
  MatchRequest request = ranks(4, {0, 1, 2, 3});
  request.nics = {0, 1, 2};
  std::vector<int> nics;
  for (const MatchedRank& rank : match_node(topology, request).ranks) nics.push_back(rank.nic);
  EXPECT_THAT(nics, ElementsAre(0, 2, 1, 1));
}

TEST(Matching, DecidesForSixtyFourRanks) {
  std::vector<int> gpu_numas;
  std::vector<int> entries;
  for (int i = 0; i < 64; ++i) {
    gpu_numas.push_back(7 - i / 8);
    entries.push_back(i);
  }
  const Matching matching = match_node(node(2, 8, 64, gpu_numas), ranks(64, entries));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_THAT(matching.ranks[i].numas, ElementsAre(7 - static_cast<int>(i) / 8));
    EXPECT_EQ(matching.ranks[i].gpu, static_cast<int>(i));
  }
}

}  // namespace
}  // namespace hvd
