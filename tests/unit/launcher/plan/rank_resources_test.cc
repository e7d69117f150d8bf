// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/rank_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "launcher/plan/binding_report.h"

namespace hvd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

/// Four NUMA nodes of two cores in two sockets; GPU 0 is near the last, as on Perlmutter.
NodeTopology reversed_node() {
  NodeTopology topology;
  for (int core = 0; core < 8; ++core) topology.cores.push_back({{core}, core / 4, core / 2});
  for (int index = 0; index < 4; ++index) {
    NodeGpu gpu;
    gpu.index = index;
    gpu.bus_id = format_text("0000:{}0:00.0", index + 1);
    gpu.uuid = format_text("GPU-{}", std::string(4, static_cast<char>('a' + index)));
    gpu.numa = 3 - index;
    gpu.near_cpus = {6 - 2 * index, 7 - 2 * index};
    topology.gpus.push_back(gpu);
  }
  return topology;
}

Allocation machine(Variables variables) {
  Allocation allocation;
  allocation.environment = Environment(std::move(variables));
  allocation.host = "jz1";
  allocation.mask = {0, 1, 2, 3, 4, 5, 6, 7};
  allocation.node = reversed_node();
  allocation.gpus_on_machine = 4;
  allocation.gpus_open = 4;
  return allocation;
}

Allocation task_with(int local_rank, int local_size, Variables variables, CpuSet mask = {}) {
  Allocation allocation = machine(std::move(variables));
  if (!mask.empty()) allocation.mask = std::move(mask);
  Identity identity;
  identity.rank = local_rank;
  identity.size = local_size;
  identity.local_rank = local_rank;
  identity.local_size = local_size;
  identity.source = "Slurm step";
  allocation.launch = TaskLaunch{identity};
  return allocation;
}

RankPlacement only(const Placement& placement) { return placement.ranks.front(); }

TEST(RankResources, RanksOfAMachineWithGpusAreBoundNearTheirs) {
  const Placement placement = place({}, machine({})).value();
  ASSERT_EQ(placement.ranks.size(), 4U);
  std::vector<std::string> report;
  for (const RankPlacement& rank : placement.ranks) {
    report.push_back(report_binding(placement.topology, rank));
  }
  EXPECT_THAT(report,
              ElementsAre("rank 0 on jz1: GPU 0 (0000:10:00.0), cores 6-7, memory of NUMA node 3 "
                          "[./.|./.][./.|B/B]",
                          "rank 1 on jz1: GPU 1 (0000:20:00.0), cores 4-5, memory of NUMA node 2 "
                          "[./.|./.][B/B|./.]",
                          "rank 2 on jz1: GPU 2 (0000:30:00.0), cores 2-3, memory of NUMA node 1 "
                          "[./.|B/B][./.|./.]",
                          "rank 3 on jz1: GPU 3 (0000:40:00.0), cores 0-1, memory of NUMA node 0 "
                          "[B/B|./.][./.|./.]"));
  EXPECT_THAT(placement.warnings, IsEmpty());
}

TEST(RankResources, GpusFollowMasksThatSlurmMade) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
                       {"SLURM_CPU_BIND_LIST", "0x03,0x0C,0x30,0xC0"},
                       {"SLURM_CPU_BIND_TYPE", "mask_cpu:"}};
  for (int rank = 0; rank < 4; ++rank) {
    const Placement placement =
        place({}, task_with(rank, 4, step, {2 * rank, 2 * rank + 1})).value();
    EXPECT_EQ(only(placement).gpu, 3 - rank);
    EXPECT_EQ(only(placement).gpu_id, format_text("0000:{}0:00.0", 4 - rank));
    EXPECT_TRUE(only(placement).cpus.empty());
    EXPECT_THAT(only(placement).memory_numas, ElementsAre(rank));
    EXPECT_THAT(placement.warnings, IsEmpty());
  }
}

TEST(RankResources, AMaskThatTasksShareIsDividedNearTheGpus) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};
  EXPECT_THAT(only(place({}, task_with(0, 4, step)).value()).cpus, ElementsAre(6, 7));
  EXPECT_THAT(only(place({}, task_with(3, 4, step)).value()).cpus, ElementsAre(0, 1));
}

TEST(RankResources, ARankFarFromItsGpuIsWarnedOf) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0"}};
  const Placement by_slurm = place({}, task_with(0, 1, step, {0, 1})).value();
  ASSERT_EQ(by_slurm.warnings.size(), 1U);
  EXPECT_THAT(by_slurm.warnings[0],
              HasSubstr("rank 0: its CPUs 0-1 are far from its GPU 0 (0000:10:00.0, NUMA node 3): "
                        "have Slurm bind nothing (srun --cpu-bind=none)"));
  RunOptions options;
  options.bind.policy = BindPolicy::kMap;
  options.bind.map = {{0}};
  const Placement by_user = place(options, task_with(0, 1, step)).value();
  ASSERT_EQ(by_user.warnings.size(), 1U);
  EXPECT_THAT(by_user.warnings[0], HasSubstr("leave --bind out"));
}

/// A task of mpirun, which has all CPUs and may have bound its ranks.
Allocation task_of_mpirun(int local_rank, int local_size, CpuSet mask, Variables variables = {}) {
  Allocation allocation = task_with(local_rank, local_size, std::move(variables), std::move(mask));
  Identity identity = allocation.task()->identity;
  identity.source = "Open MPI";
  identity.details = {{.source = "Open MPI"}};
  allocation.launch = TaskLaunch{identity, {0, 1, 2, 3, 4, 5, 6, 7}};
  return allocation;
}

TEST(RankResources, WhatAnotherLauncherHasBoundStays) {
  const Placement core = place({}, task_of_mpirun(1, 2, {3})).value();
  EXPECT_TRUE(only(core).cpus.empty());
  EXPECT_TRUE(only(core).is_bound);
  EXPECT_EQ(only(core).threads, 1);
  EXPECT_THAT(core.notes, Contains(HasSubstr("CPUs 3: as Open MPI has bound this rank")));
  EXPECT_THAT(core.notes, Not(Contains(HasSubstr("not bound"))));
  // A socket of four cores for two ranks.
  const Placement socket = place({}, task_of_mpirun(2, 4, {4, 5, 6, 7})).value();
  EXPECT_TRUE(only(socket).cpus.empty());
  EXPECT_EQ(only(socket).threads, 2);
  EXPECT_THAT(socket.notes, Contains(HasSubstr("this rank and others; --bind cores divides them")));
  // Not the rank's own: the variables of a Slurm step around mpirun say nothing about its ranks.
  const Variables around{{"SLURM_CPU_BIND_LIST", "0x0F,0xF0"},
                         {"SLURM_CPU_BIND_TYPE", "mask_cpu:"}};
  EXPECT_EQ(only(place({}, task_of_mpirun(2, 4, {4, 5, 6, 7}, around)).value()).threads, 2);
}

TEST(RankResources, RanksThatAnotherLauncherHasNotBoundAreBound) {
  EXPECT_THAT(only(place({}, task_of_mpirun(1, 4, {0, 1, 2, 3, 4, 5, 6, 7})).value()).cpus,
              ElementsAre(4, 5));
  RunOptions options;
  options.bind.policy = BindPolicy::kCores;
  EXPECT_THAT(only(place(options, task_of_mpirun(3, 4, {4, 5, 6, 7})).value()).cpus,
              ElementsAre(6, 7));
}

TEST(RankResources, ARankThatAnotherLauncherHasBoundFarFromItsGpuGetsThatLaunchersRemedy) {
  const Placement far =
      place({}, task_of_mpirun(0, 1, {0}, {{"CUDA_VISIBLE_DEVICES", "0"}})).value();
  ASSERT_EQ(far.warnings.size(), 1U);
  EXPECT_THAT(far.warnings[0], HasSubstr("have Open MPI bind nothing (as mpirun --bind-to none)"));
}

TEST(RankResources, AGpuOfWhichOnlyTheNumaNodeIsKnownMayBeFar) {
  const auto placed_with = [](int numa) {
    Allocation allocation = task_with(0, 1, {{"CUDA_VISIBLE_DEVICES", "0"}}, {6, 7});
    allocation.node.gpus[0].near_cpus.clear();
    allocation.node.gpus[0].numa = numa;
    return place({}, allocation).value();
  };
  EXPECT_THAT(placed_with(0).warnings, Contains(HasSubstr("far from its GPU 0")));
  EXPECT_THAT(placed_with(3).warnings, IsEmpty());
  EXPECT_THAT(placed_with(-1).warnings, IsEmpty()) << "nobody knows";
}

TEST(RankResources, AnotherNumaNodeOfTheSocketIsOnlyNoted) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0"}};
  const Placement placement = place({}, task_with(0, 1, step, {4, 5})).value();
  EXPECT_THAT(placement.warnings, IsEmpty());
  EXPECT_THAT(placement.notes, Contains(HasSubstr("CPUs 4-5 in the socket of its GPU 0")));
}

TEST(RankResources, AListThatNamesNoGpuOfTheNodeIsAnError) {
  const auto placed = place({}, task_with(0, 1, {{"CUDA_VISIBLE_DEVICES", "7"}}));
  EXPECT_EQ(placed.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(placed.status().message(), HasSubstr("no GPU of this node is '7'"));
}

TEST(RankResources, RanksThatShareGpusAreDealtInTurn) {
  RunOptions options;
  options.ranks = 8;
  const Placement placement = place(options, machine({{"HVD_SHARE_GPU", "1"}})).value();
  for (const RankPlacement& rank : placement.ranks) {
    EXPECT_EQ(rank.gpu, rank.rank % 4);
    EXPECT_THAT(rank.cpus, ElementsAre(7 - 2 * (rank.rank % 4) - (rank.rank < 4 ? 1 : 0)));
  }
}

TEST(RankResources, GpusThatTasksHideFromEachOtherAreWarnedOfOnce) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0"},
                       {"SLURM_STEP_GPUS", "2"},
                       {"SLURM_GPUS_ON_NODE", "4"},
                       {"SLURM_GPUS_PER_TASK", "1"}};
  Allocation allocation = task_with(0, 4, step);
  allocation.gpus_open = 1;
  const Placement placement = place({}, allocation).value();
  EXPECT_EQ(only(placement).gpu, 0);
  EXPECT_EQ(only(placement).gpu_id, "0000:30:00.0");
  ASSERT_FALSE(placement.warnings.empty());
  EXPECT_THAT(placement.warnings[0], HasSubstr("--gpus-per-task=1 hides the GPUs of a node's 4 "
                                               "ranks from each other"));
  EXPECT_THAT(placement.warnings[0], HasSubstr("--gpus-per-node=4 --gpu-bind=none"));
  EXPECT_THAT(placement.warnings[0], HasSubstr("--gres-flags=allow-task-sharing"));
  // Their device files are open: allow-task-sharing.
  allocation.gpus_open = 4;
  EXPECT_THAT(place({}, allocation).value().warnings, Not(Contains(HasSubstr("hides"))));
}

TEST(RankResources, IdleGpusAreWarnedOfByTheFirstRank) {
  const Variables step{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};
  const Placement first = place({}, task_with(0, 2, step)).value();
  ASSERT_EQ(first.warnings.size(), 1U);
  EXPECT_THAT(first.warnings[0],
              HasSubstr("2 of 4 GPUs stay idle, since 2 ranks run on this "
                        "machine: start one rank per GPU (--ntasks-per-node=4)"));
  EXPECT_THAT(place({}, task_with(1, 2, step)).value().warnings, IsEmpty());
}

TEST(RankResources, NamesOfGpusAreThoseThatAllRanksUse) {
  struct Case {
    Variables variables;
    std::string id;
  };
  const std::vector<Case> cases{
      {{{"CUDA_VISIBLE_DEVICES", "2"}}, "0000:30:00.0"},
      {{{"CUDA_VISIBLE_DEVICES", "GPU-cc"}}, "0000:30:00.0"},
      {{{"CUDA_VISIBLE_DEVICES", "MIG-1234"}}, "MIG-1234"},
      {{{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "1"}}, "0000:20:00.0"},
      {{{"CUDA_VISIBLE_DEVICES", "0"}, {"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}, ""},
      {{{"ZE_AFFINITY_MASK", "1.0"}}, "0000:20:00.0.0"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(only(place({}, task_with(0, 1, c.variables)).value()).gpu_id, c.id)
        << c.variables.begin()->second;
  }
  // A container with one of the node's device files: index 0 may be any of the four.
  Allocation container = task_with(0, 1, {{"CUDA_VISIBLE_DEVICES", "0"}});
  container.gpus_on_machine = 1;
  EXPECT_EQ(only(place({}, container).value()).gpu_id, "");
  // No PCI devices to see: Slurm's number.
  Allocation hidden = task_with(0, 1, {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "3"}});
  hidden.node.gpus.clear();
  EXPECT_EQ(only(place({}, hidden).value()).gpu_id, "slurm-gpu-3");
}

TEST(RankResources, MemoryIsLeftAloneWhereSlurmBindsIt) {
  const Variables bound{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"SLURM_MEM_BIND_TYPE", "local"}};
  RunOptions options;
  EXPECT_THAT(only(place(options, task_with(0, 4, bound)).value()).memory_numas, IsEmpty());
  options.bind.memory = MemoryBind::kLocal;
  EXPECT_THAT(only(place(options, task_with(0, 4, bound)).value()).memory_numas, ElementsAre(3));
  options.bind.memory = MemoryBind::kNone;
  EXPECT_THAT(only(place(options, task_with(0, 4, {})).value()).memory_numas, IsEmpty());
}

TEST(RankResources, AnEmptyMaskIsAnErrorWhereBindingIsAsked) {
  Allocation allocation = task_with(0, 2, {});
  allocation.mask.clear();
  EXPECT_TRUE(place({}, allocation).is_ok());
  RunOptions options;
  options.bind.policy = BindPolicy::kCores;
  EXPECT_THAT(place(options, allocation).status().message(),
              HasSubstr("is empty or cannot be read"));
}

}  // namespace
}  // namespace hvd
