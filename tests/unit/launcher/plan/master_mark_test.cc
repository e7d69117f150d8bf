// SPDX-License-Identifier: Apache-2.0
// MASTER_ADDR and MASTER_PORT, RANK and its like that hvdrun set for one step, seen from within it
// and from others.
#include "launcher/plan/master_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"
#include "topology/identity.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Variables = std::map<std::string, std::string, std::less<>>;

const Variables kOfStepNine{
    {"HVD_MASTER_OF", "7.9/old:20009"}, {"MASTER_ADDR", "old"}, {"MASTER_PORT", "20009"}};

Variables with(Variables first, const Variables& more) {
  for (const auto& [name, value] : more) first.insert_or_assign(name, value);
  return first;
}

/// Rank 1 of two, of step 4 of job 7, on n1 and n2.
Allocation srun_task(const Variables& more) {
  Allocation allocation;
  allocation.environment = Environment(with({{"SLURM_JOB_ID", "7"},
                                             {"SLURM_STEP_ID", "4"},
                                             {"SLURM_PROCID", "1"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_NODEID", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_STEP_NUM_NODES", "2"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                             {"SLURM_STEP_NODELIST", "n[1-2]"}},
                                            more));
  allocation.launch = TaskLaunch{derive_identity(allocation.environment).value().value()};
  allocation.host = "n2";
  allocation.hosts = {"n1", "n2"};
  allocation.mask = {0, 1};
  return allocation;
}

/// The lines of what the program gets.
std::vector<std::string> started_with(const Allocation& allocation, const RunOptions& options = {},
                                      const SiteConfig& site = {}) {
  const Placement placement = place(options, allocation).value();
  SiteFacts facts;
  facts.nodes = placement.node_count;
  const MachineEnvironment machine =
      plan_machine(site, {}, facts, false, read_meeting(allocation, false));
  const EnvironmentPlan plan = plan_environment(options, allocation, machine, placement, {});
  const auto own = plan.each_rank.empty() ? std::vector<PlannedVariable>() : plan.each_rank[0];
  return rank_environment(plan, allocation.environment, own);
}

TEST(MasterMark, StandsBesideWhatHvdrunSets) {
  EXPECT_THAT(started_with(srun_task({})),
              AllOf(Contains("MASTER_ADDR=n1"), Contains("MASTER_PORT=24043"),
                    Contains("HVD_MASTER_OF=7.4/n1:24043")));
}

TEST(MasterMark, LeavesOutWhatIsTheUsersOwn) {
  EXPECT_THAT(started_with(srun_task({{"MASTER_ADDR", "mine"}})),
              AllOf(Contains("MASTER_ADDR=mine"), Contains("HVD_MASTER_OF=7.4/:24043")));
  RunOptions options;
  options.variables = {{"MASTER_ADDR", "typed"}};
  EXPECT_THAT(started_with(srun_task({{"MASTER_PORT", "5"}}), options),
              AllOf(Contains("MASTER_ADDR=typed"), Contains("MASTER_PORT=5"),
                    Not(Contains(StartsWith("HVD_MASTER_OF=")))));
}

TEST(MasterMark, MakesWayInAnotherStepAndInAnotherJob) {
  for (const char* mark : {"7.9/old:20009", "6.4/old:20009"}) {
    const auto lines = started_with(srun_task(with(kOfStepNine, {{"HVD_MASTER_OF", mark}})));
    EXPECT_THAT(lines,
                AllOf(Contains("MASTER_ADDR=n1"), Contains("MASTER_PORT=24043"),
                      Contains("HVD_MASTER_OF=7.4/n1:24043"), Not(Contains(HasSubstr("old")))))
        << mark;
  }
}

TEST(MasterMark, HoldsWithinItsStep) {
  const auto lines = started_with(srun_task(
      {{"HVD_MASTER_OF", "7.4/there:20009"}, {"MASTER_ADDR", "there"}, {"MASTER_PORT", "20009"}}));
  EXPECT_THAT(lines, AllOf(Contains("MASTER_ADDR=there"), Contains("MASTER_PORT=20009"),
                           Contains("HVD_MASTER_OF=7.4/there:20009")));
}

TEST(MasterMark, DoesNotTakeAwayWhatWasChangedSince) {
  const auto lines = started_with(srun_task(with(kOfStepNine, {{"MASTER_ADDR", "mine"}})));
  EXPECT_THAT(lines, AllOf(Contains("MASTER_ADDR=mine"), Contains("MASTER_PORT=24043"),
                           Contains("HVD_MASTER_OF=7.4/:24043")));
}

TEST(MasterMark, IsDroppedWithBothWhereRanksAreStartedHere) {
  Allocation nested = srun_task(
      {{"HVD_MASTER_OF", "7.4/n1:24043"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "24043"}});
  nested.launch = LocalLaunch();
  nested.hosts = {"n2"};
  RunOptions options;
  options.ranks = 2;
  EXPECT_THAT(started_with(nested, options), Each(Not(HasSubstr("MASTER_"))));
  nested.environment.unset("HVD_MASTER_OF");
  EXPECT_THAT(started_with(nested, options), Contains("MASTER_ADDR=n1"));
}

TEST(MasterMark, IsNotHandedToSrunByAShell) {
  Allocation shell;
  shell.launch = SrunLaunch{.tasks_per_node = {1, 1}};
  shell.environment =
      Environment(with(kOfStepNine, {{"SLURM_JOB_ID", "8"}, {"SLURM_NTASKS", "2"}}));
  shell.hosts = {"n1", "n2"};
  EXPECT_THAT(started_with(shell), Each(Not(HasSubstr("MASTER_"))));
}

TEST(MasterMark, ThatCannotBeReadTakesNothingAway) {
  for (const char* mark : {"", "x", "7.9", ":/", "7.9/:"}) {
    const Environment environment(with(kOfStepNine, {{"HVD_MASTER_OF", mark}}));
    EXPECT_EQ(marked_for_other_steps(environment, "7.4"), std::vector<std::string>{"HVD_MASTER_OF"})
        << mark;
  }
  EXPECT_THAT(marked_for_other_steps(Environment(), ""), IsEmpty());
}

TEST(RankMark, StandsBesideTheNamesOfTorchrun) {
  EXPECT_THAT(started_with(srun_task({})),
              AllOf(Contains("RANK=1"), Contains("WORLD_SIZE=2"), Contains("LOCAL_RANK=0"),
                    Contains("LOCAL_WORLD_SIZE=1"), Contains("HVD_RANK_OF=7.4/1")));
}

TEST(RankMark, IsMissingWhereTheUserSaysWhoTheRankIs) {
  const auto given = started_with(srun_task({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  EXPECT_THAT(given, AllOf(Contains("RANK=1"), Contains("LOCAL_RANK=0"),
                           Not(Contains(StartsWith("HVD_RANK_OF=")))));
  RunOptions options;
  options.variables = {{"WORLD_SIZE", "2"}};
  EXPECT_THAT(started_with(srun_task({}), options),
              AllOf(Contains("WORLD_SIZE=2"), Not(Contains(StartsWith("RANK=")))));
}

TEST(RankMark, IsMissingWhereThePlaceOfTheUserIsAnotherOne) {
  // A batch shell's `export LOCAL_RANK=$SLURM_LOCALID`, seen by all tasks.
  const auto lines = started_with(srun_task({{"LOCAL_RANK", "3"}}));
  EXPECT_THAT(lines, AllOf(Contains("LOCAL_RANK=3"), Each(Not(StartsWith("RANK="))),
                           Each(Not(StartsWith("HVD_RANK_OF=")))));
}

TEST(RankMark, LeavesTheGpuToTasksThatSeeTheirOwnAlone) {
  const Variables one_gpu{{"CUDA_VISIBLE_DEVICES", "0"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2"},
                          {"SLURM_STEP_NODELIST", "n1"},
                          {"SLURM_STEP_GPUS", "1"},
                          {"SLURM_GPUS_ON_NODE", "2"}};
  EXPECT_THAT(started_with(srun_task(one_gpu)),
              AllOf(Contains("RANK=1"), Each(Not(StartsWith("LOCAL_RANK=")))));
  const auto all = with(one_gpu, {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "0,1"}});
  EXPECT_THAT(started_with(srun_task(all)), Contains("LOCAL_RANK=1"));
}

TEST(RankMark, MakesWayInAnotherStepAndInAnotherJob) {
  const Variables left{
      {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
  for (const char* mark : {"7.9/5", "6.4/5"}) {
    EXPECT_THAT(started_with(srun_task(with(left, {{"HVD_RANK_OF", mark}}))),
                AllOf(Contains("RANK=1"), Contains("WORLD_SIZE=2"), Contains("LOCAL_RANK=0"),
                      Contains("LOCAL_WORLD_SIZE=1"), Contains("HVD_RANK_OF=7.4/1")))
        << mark;
  }
}

TEST(RankMark, HoldsWithinItsStep) {
  const auto lines = started_with(srun_task(
      {{"HVD_RANK_OF", "7.4/1"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}));
  EXPECT_THAT(lines, AllOf(Contains("RANK=1"), Contains("LOCAL_WORLD_SIZE=1"),
                           Contains("HVD_RANK_OF=7.4/1")));
}

TEST(RankMark, LeavesOutAPlaceThatIsNotKnown) {
  Allocation task = srun_task({});
  task.environment = Environment({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}});
  task.launch = TaskLaunch{derive_identity(task.environment).value().value()};
  EXPECT_THAT(started_with(task), AllOf(Contains("RANK=1"), Contains("WORLD_SIZE=4"),
                                        Not(Contains(StartsWith("LOCAL_RANK=")))));
}

TEST(BootstrapInterfaces, OfTheSiteDoNotComeBeforeTheUsersInterfaces) {
  SiteConfig site;
  site.id = "x";
  site.bootstrap_if = "hsn0";
  site.provenance = {"page", "2026-10", "documented"};
  const auto has_ours = Contains("HVD_BOOTSTRAP_INTERFACE=hsn0");
  EXPECT_THAT(started_with(srun_task({}), {}, site), has_ours);
  EXPECT_THAT(started_with(srun_task({{"HVD_INTERFACE", ""}}), {}, site), has_ours);
  EXPECT_THAT(started_with(srun_task({{"HVD_INTERFACE", "eth0"}}), {}, site),
              AllOf(Not(has_ours), Contains("NCCL_SOCKET_IFNAME=hsn0")));
  RunOptions options;
  options.variables = {{"HVD_INTERFACE", "eth0"}};
  EXPECT_THAT(started_with(srun_task({}), options, site), Not(has_ours));
  EXPECT_THAT(
      started_with(srun_task({{"HVD_INTERFACE", "eth0"}, {"HVD_BOOTSTRAP_INTERFACE", "eth1"}}), {},
                   site),
      Contains("HVD_BOOTSTRAP_INTERFACE=eth1"));
}

}  // namespace
}  // namespace hvd
