// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Two sockets of two NUMA nodes of two cores; the second hardware threads count from 8 on.
NodeTopology two_sockets(const std::vector<int>& gpu_numas = {}) {
  NodeTopology topology;
  for (int core = 0; core < 8; ++core) {
    topology.cores.push_back({{core, core + 8}, core / 4, core / 2});
  }
  for (const int numa : gpu_numas) {
    NodeGpu gpu;
    gpu.numa = numa;
    topology.gpus.push_back(gpu);
  }
  return topology;
}

CpuSet cpus(std::string_view text) { return parse_cpu_set(text).value(); }

BindRequest ranks(int count, BindPolicy policy, std::string_view mask = "0-15") {
  BindRequest request;
  request.policy = policy;
  request.masks.assign(static_cast<std::size_t>(count), cpus(mask));
  request.gpus.assign(static_cast<std::size_t>(count), -1);
  return request;
}

/// The ranks' CPUs, "|" between ranks; "-": not bound; or the error.
std::string bound(const NodeTopology& topology, const BindRequest& request) {
  const auto result = bind_ranks(topology, request);
  if (!result.is_ok()) return result.status().message();
  std::string text;
  for (const BoundRank& rank : result.value()) {
    if (!text.empty()) text += "|";
    text += rank.cpus.empty() ? "-" : format_cpu_set(rank.cpus);
  }
  return text;
}

TEST(Binding, EveryPolicyStaysInTheMask) {
  struct Case {
    int ranks;
    BindPolicy policy;
    std::string mask;
    std::string expected;
  };
  const std::vector<Case> cases{
      {4, BindPolicy::kCores, "0-15", "0-1,8-9|2-3,10-11|4-5,12-13|6-7,14-15"},
      {2, BindPolicy::kCores, "0-7", "0-3|4-7"},
      {3, BindPolicy::kCores, "2-3,5", "2|3|5"},
      {1, BindPolicy::kCores, "1,9", "1,9"},
      {2, BindPolicy::kNuma, "0-15", "0-1,8-9|4-5,12-13"},
      {8, BindPolicy::kNuma, "0-7", "0-1|0-1|2-3|2-3|4-5|4-5|6-7|6-7"},
      {2, BindPolicy::kNuma, "1,2", "1|2"},
      {2, BindPolicy::kSocket, "0-15", "0-3,8-11|4-7,12-15"},
      {1, BindPolicy::kSocket, "3-12", "3,8-11"},
      {3, BindPolicy::kSocket, "4-7", "4-7|4-7|4-7"},
      {2, BindPolicy::kNone, "0-15", "-|-"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(bound(two_sockets(), ranks(c.ranks, c.policy, c.mask)), c.expected)
        << c.ranks << " ranks in " << c.mask;
  }
}

TEST(Binding, FollowsTheGpus) {
  const NodeTopology reversed = two_sockets({3, 2, 1, 0});
  BindRequest request = ranks(4, BindPolicy::kCores, "0-7");
  request.gpus = {0, 1, 2, 3};
  EXPECT_EQ(bound(reversed, request), "6-7|4-5|2-3|0-1");
  request.policy = BindPolicy::kNuma;
  EXPECT_EQ(bound(reversed, request), "6-7|4-5|2-3|0-1");
  request.policy = BindPolicy::kSocket;
  EXPECT_EQ(bound(reversed, request), "4-7|4-7|0-3|0-3");
  // The mask has nothing near the GPU: a domain of the mask all the same.
  BindRequest far = ranks(1, BindPolicy::kNuma, "0-1");
  far.gpus = {0};
  EXPECT_EQ(bound(reversed, far), "0-1");
}

TEST(Binding, LeavesTheCoresOfUnusedGpusAlone) {
  NodeTopology topology = two_sockets({0, 0, 2, 2});
  for (std::size_t i = 0; i < 4; ++i) topology.gpus[i].near_cpus = cpus(i < 2 ? "0-3" : "4-7");
  BindRequest request = ranks(2, BindPolicy::kCores, "0-7");
  request.gpus = {0, 1};
  EXPECT_EQ(bound(topology, request), "0-1|2-3");
  request.gpus = {1, 2};
  EXPECT_EQ(bound(topology, request), "0-1|4-5");
  // More is asked than that leaves.
  request.wanted_cpus = 4;
  EXPECT_EQ(bound(topology, request), "0-3|4-7");
  // The other GPUs' cores are not the job's.
  request.wanted_cpus = 1;
  request.gpus = {0, 1};
  request.masks.assign(2, cpus("0-4"));
  EXPECT_EQ(bound(topology, request), "0-2|3-4");
  // A rank alone keeps what it was given.
  request.masks = {cpus("0-7")};
  EXPECT_EQ(bound(topology, request), "0-7");
}

TEST(Binding, RanksThatShareAMaskDivideIt) {
  BindRequest request = ranks(4, BindPolicy::kCores);
  request.masks = {cpus("0-3"), cpus("4-7"), cpus("0-3"), cpus("4-7")};
  EXPECT_EQ(bound(two_sockets(), request), "0-1|4-5|2-3|6-7");
  request.policy = BindPolicy::kNuma;
  EXPECT_EQ(bound(two_sockets(), request), "0-1|4-5|2-3|6-7");
}

TEST(Binding, TakesAMap) {
  BindRequest request = ranks(2, BindPolicy::kMap, "0-7");
  request.map = {cpus("6-7"), cpus("0,2"), cpus("3")};
  EXPECT_EQ(bound(two_sockets(), request), "6-7|0,2");
  request.map = {cpus("6-9"), cpus("0,2")};
  EXPECT_THAT(bound(two_sockets(), request),
              HasSubstr("local rank 0: CPUs 8-9 are outside of the mask 0-7"));
  request.map = {cpus("6")};
  EXPECT_THAT(bound(two_sockets(), request), HasSubstr("1 CPU list for 2 ranks"));
}

TEST(Binding, MoreRanksThanCoresIsAnError) {
  EXPECT_THAT(bound(two_sockets(), ranks(3, BindPolicy::kCores, "0-1,8-9")),
              HasSubstr("3 ranks share 2 cores (CPUs 0-1,8-9): start at most 2"));
}

TEST(Binding, CountsCoresNotHardwareThreads) {
  const auto cores_of = [](const BindRequest& request) {
    std::vector<int> cores;
    const auto result = bind_ranks(two_sockets(), request).value();
    for (const BoundRank& rank : result) cores.push_back(rank.cores);
    return cores;
  };
  EXPECT_THAT(cores_of(ranks(2, BindPolicy::kCores)), ElementsAre(4, 4));
  EXPECT_THAT(cores_of(ranks(3, BindPolicy::kCores, "0-7")), ElementsAre(3, 3, 2));
  EXPECT_THAT(cores_of(ranks(2, BindPolicy::kNone)), ElementsAre(4, 4));
  EXPECT_THAT(cores_of(ranks(20, BindPolicy::kNone)).front(), 1);
  EXPECT_THAT(cores_of(ranks(4, BindPolicy::kSocket)), ElementsAre(2, 2, 2, 2));
}

TEST(Binding, MemoryIsThatOfTheCpus) {
  const auto result = bind_ranks(two_sockets(), ranks(2, BindPolicy::kCores)).value();
  EXPECT_THAT(result[0].numas, ElementsAre(0, 1));
  EXPECT_THAT(result[1].numas, ElementsAre(2, 3));
}

std::string used(std::string_view mask, SmtUse smt) {
  const auto result = cpus_to_use(two_sockets(), cpus(mask), smt);
  return result.is_ok() ? format_cpu_set(result.value()) : result.status().message();
}

TEST(Binding, HardwareThreadsAreChosenInTheMask) {
  EXPECT_EQ(used("0-3,8-9", SmtUse::kAsGiven), "0-3,8-9");
  EXPECT_EQ(used("0-3,8-9", SmtUse::kOne), "0-3");
  EXPECT_EQ(used("1,8-9", SmtUse::kOne), "1,8");
  EXPECT_EQ(used("0-1,8-9", SmtUse::kAll), "0-1,8-9");
  EXPECT_THAT(used("0-1,8", SmtUse::kAll),
              HasSubstr("hardware threads 1,9 of a core the mask 0-1,8 has only 1; ask Slurm for "
                        "all (--hint=multithread)"));
  EXPECT_THAT(used("", SmtUse::kAsGiven), HasSubstr("mask of this process is empty"));
}

TEST(Binding, CpusThatNoTopologyKnowsAreCoresOfTheirOwn) {
  const NodeTopology topology = with_cores_of({}, cpus("3,7"));
  EXPECT_EQ(bound(topology, ranks(2, BindPolicy::kCores, "3,7")), "3|7");
}

TEST(BindOptions, ReadsAndWritesTheSame) {
  for (const std::string text :
       {"cores", "numa", "socket", "none", "map:0-9:10-19", "map:0,2-3:1"}) {
    BindOptions options;
    ASSERT_TRUE(parse_bind(text, options).is_ok()) << text;
    EXPECT_THAT(bind_flags(options), ElementsAre("--bind", text));
  }
  EXPECT_TRUE(bind_flags({}).empty());
  BindOptions all;
  all.smt = SmtUse::kOne;
  all.memory = MemoryBind::kLocal;
  all.report = true;
  EXPECT_THAT(bind_flags(all), ElementsAre("--no-smt", "--mem-bind", "local", "--report-bindings"));
}

TEST(BindOptions, RefusesWhatIsNoMap) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases{
      {"core", "--bind: 'core' is not one of cores, numa"},
      {"map:", "list 1 (local rank 0) is empty"},
      {"map:0-3:", "list 2 (local rank 1) is empty"},
      {"map:0-3:x", "list 2 (local rank 1)"},
      {"map:3-0", "'3-0' is not a CPU list"},
      {"map:0;1", "'0;1' is not a CPU list"},
  };
  for (const Case& c : cases) {
    BindOptions options;
    EXPECT_THAT(parse_bind(c.text, options).message(), HasSubstr(c.message)) << c.text;
  }
}

}  // namespace
}  // namespace hvd
