// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/placement.h"
#include "launcher/console/shell_word.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "launcher/plan/command.h"
#include "launcher/plan/environment_plan.h"

namespace hvd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

Allocation laptop(Variables variables = {}, int gpus = 0) {
  Allocation allocation;
  allocation.environment = Environment(std::move(variables));
  allocation.host = "box";
  allocation.hosts = {"box"};
  allocation.mask = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int core = 0; core < 4; ++core) allocation.node.cores.push_back({{core, core + 4}, 0, 0});
  allocation.gpus_on_machine = gpus;
  return allocation;
}

Allocation task(int local_rank, int local_size, Variables variables = {}) {
  Allocation allocation = laptop(std::move(variables));
  Identity identity;
  identity.rank = local_rank;
  identity.size = local_size;
  identity.local_rank = local_rank;
  identity.local_size = local_size;
  identity.source = "Slurm step";
  allocation.launch = TaskLaunch{identity};
  return allocation;
}

Allocation batch_shell(Variables variables = {}) {
  variables["SLURM_JOB_ID"] = "7";
  Allocation allocation = laptop(std::move(variables));
  allocation.launch = SrunLaunch();
  allocation.hosts = {"jz1", "jz2"};
  return allocation;
}

RunOptions with_ranks(int ranks, std::optional<int> nodes = std::nullopt) {
  RunOptions options;
  options.ranks = ranks;
  options.nodes = nodes;
  options.command = {"prog", "a b"};
  return options;
}

TEST(Placement, SplitsRanksOverVirtualNodesInBlocks) {
  const Placement placement = place(with_ranks(5, 2), laptop()).value();
  std::vector<int> nodes;
  std::vector<int> locals;
  for (const RankPlacement& rank : placement.ranks) {
    nodes.push_back(rank.node);
    locals.push_back(rank.local_rank);
  }
  EXPECT_THAT(nodes, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(locals, ElementsAre(0, 1, 2, 0, 1));
}

TEST(Placement, OneRankPerGpuElseOne) {
  RunOptions options;
  EXPECT_EQ(place(options, laptop()).value().size, 1);
  const Placement placement = place(options, laptop({}, 2)).value();
  EXPECT_EQ(placement.size, 2);
  EXPECT_EQ(placement.ranks[1].gpu, 1);
  EXPECT_THAT(placement.notes, Contains(HasSubstr("one per visible GPU")));
}

TEST(Placement, GpusAreDividedOverVirtualNodesToo) {
  const Placement placement = place(with_ranks(4, 2), laptop({}, 4)).value();
  for (const RankPlacement& rank : placement.ranks) EXPECT_EQ(rank.gpu, rank.rank);
}

TEST(Placement, VariablesOfTheCommandLineCount) {
  RunOptions shared = with_ranks(4);
  shared.variables = {{"HVD_SHARE_GPU", "1"}};
  const Placement placement = place(shared, laptop({}, 2)).value();
  for (const RankPlacement& rank : placement.ranks) EXPECT_EQ(rank.gpu, rank.rank % 2);
  RunOptions hidden = with_ranks(4);
  hidden.variables = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_FALSE(place(hidden, laptop({}, 2)).value().ranks[1].gpu.has_value());
}

TEST(Placement, RefusesWhatCannotBe) {
  EXPECT_THAT(place(with_ranks(2, 3), laptop()).status().message(),
              HasSubstr("--nodes 3 is more than -np 2"));
  EXPECT_THAT(place(with_ranks(4), laptop({}, 2)).status().message(),
              HasSubstr("4 ranks on this node, but only 2 GPUs"));
  RunOptions bound = with_ranks(4);
  bound.bind.policy = BindPolicy::kCores;
  bound.cpus_per_rank = 3;
  EXPECT_THAT(place(bound, laptop()).status().message(), HasSubstr("has 2 CPUs, 3 were asked for"));
  RunOptions greedy = with_ranks(1);
  greedy.cpus_per_rank = 9;
  EXPECT_THAT(place(greedy, laptop()).status().message(),
              HasSubstr("--cpus-per-rank 9: local rank 0 may use 8 CPUs here: ask for at most 8"));
}

TEST(Placement, BindsLocalRanksOnlyWhenAsked) {
  EXPECT_TRUE(place(with_ranks(2), laptop()).value().ranks[1].cpus.empty());
  RunOptions bound = with_ranks(2);
  bound.bind.policy = BindPolicy::kCores;
  EXPECT_THAT(place(bound, laptop()).value().ranks[1].cpus, ElementsAre(2, 3, 6, 7));
}

TEST(Placement, DividesAMaskThatTasksShare) {
  const RunOptions options;
  const RankPlacement rank = place(options, task(1, 2)).value().ranks[0];
  EXPECT_THAT(rank.cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(rank.threads, 2);
  // Each task has its own mask: it stays whole.
  const Variables own{{"SLURM_CPU_BIND_LIST", "0x33,0xCC"}};
  EXPECT_TRUE(place(options, task(1, 2, own)).value().ranks[0].cpus.empty());
}

TEST(Placement, NeverGivesFewerCpusThanAsked) {
  const RunOptions options;
  const Variables asked{{"SLURM_CPUS_PER_TASK", "8"}};
  const Placement placement = place(options, task(0, 2, asked)).value();
  EXPECT_TRUE(placement.ranks[0].cpus.empty());
  EXPECT_THAT(placement.notes, Contains(HasSubstr("not bound")));
  EXPECT_TRUE(place(options, task(0, 5)).value().ranks[0].cpus.empty());
}

TEST(Placement, CountsTheRanksOfABatchShell) {
  const RunOptions options;
  EXPECT_EQ(place(options, batch_shell({{"SLURM_NTASKS", "8"}})).value().size, 8);
  EXPECT_EQ(place(options, batch_shell({{"SLURM_GPUS_ON_NODE", "4"}})).value().size, 8);
  EXPECT_EQ(place(options, batch_shell()).value().size, 2);
  RunOptions three;
  three.nodes = 3;
  EXPECT_THAT(place(three, batch_shell()).status().message(), HasSubstr("type --nodes 2 or less"));
}

MachineEnvironment site_with(const std::vector<std::string>& names) {
  MachineEnvironment machine;
  for (const std::string& name : names) {
    machine.offered.push_back({name, "site", "site x", "w"});
    machine.offered.push_back({name, "fabric", "fabric y", "w"});
  }
  return machine;
}

std::string value_of(const std::vector<PlannedVariable>& variables, const std::string& name) {
  for (const PlannedVariable& variable : variables) {
    if (variable.name == name) return variable.value + " by " + variable.origin;
  }
  return "";
}

std::string overridden(const std::vector<PlannedVariable>& variables, const std::string& name) {
  std::string text;
  for (const PlannedVariable& variable : variables) {
    if (variable.name != name) continue;
    for (const OverriddenValue& other : variable.overridden) {
      text += (text.empty() ? "" : ", ") + other.value + " by " + other.origin;
    }
  }
  return text;
}

TEST(EnvironmentPlan, TheStrongestOriginWins) {
  RunOptions options = with_ranks(1);
  options.variables = {{"A", "line"}, {"HANDED", std::nullopt}};
  const Allocation allocation = laptop({{"A", "user"}, {"B", "user"}, {"HANDED", "on"}});
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan =
      plan_environment(options, allocation, site_with({"A", "B", "C"}), placement, {});
  EXPECT_EQ(value_of(plan.all, "A"), "line by command line");
  EXPECT_EQ(value_of(plan.all, "B"), "user by user environment");
  EXPECT_EQ(value_of(plan.all, "C"), "site by site x");
  EXPECT_EQ(value_of(plan.all, "HANDED"), "on by command line");
  EXPECT_EQ(overridden(plan.all, "A"),
            "user by user environment, site by site x, fabric by fabric y");
  EXPECT_EQ(overridden(plan.all, "B"), "site by site x, fabric by fabric y");
  EXPECT_EQ(overridden(plan.all, "C"), "fabric by fabric y");
  EXPECT_EQ(value_of(plan.all, "PYTHONUNBUFFERED"), "1 by default");
  EXPECT_EQ(value_of(plan.all, "OMP_NUM_THREADS"), "4 by default");
}

TEST(EnvironmentPlan, ReplacesTheRankOfAnOuterLauncher) {
  const Allocation allocation = laptop({{"SLURM_PROCID", "0"},
                                        {"SLURM_STEP_NUM_TASKS", "1"},
                                        {"PMIX_RANK", "0"},
                                        {"RANK", "3"},
                                        {"SLURM_JOB_ID", "9"},
                                        {"HOME", "/h"}});
  const RunOptions options = with_ranks(2);
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan = plan_environment(options, allocation, {}, placement, {});
  const auto lines = rank_environment(plan, allocation.environment, plan.each_rank.at(1));
  EXPECT_THAT(lines, Contains("HVD_RANK=1"));
  EXPECT_THAT(lines, Contains("SLURM_JOB_ID=9"));
  EXPECT_THAT(lines, Contains("HOME=/h"));
  for (const std::string gone : {"SLURM_PROCID=0", "PMIX_RANK=0", "RANK=3"}) {
    EXPECT_THAT(lines, Not(Contains(gone)));
  }
}

TEST(Command, SrunIsToldWhatItDoesNotInherit) {
  RunOptions options;
  options.command = {"python3", "train.py"};
  options.variables = {{"A", "b c"}};
  const Allocation allocation = batch_shell({{"SLURM_NTASKS", "8"},
                                             {"SLURM_CPUS_PER_TASK", "10"},
                                             {"SLURM_JOB_GPUS", "0,1"},
                                             {"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"},
                                             {"PMIX_RANK", "0"}});
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan = plan_environment(options, allocation, {}, placement, {});
  const auto commands =
      build_commands(options, placement, plan, {}, allocation.environment, "/bin/hvdrun");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(shell_line(commands[0].arguments),
            "srun --label --input=0 --kill-on-bad-exit=0 --cpus-per-task=10 "
            "/bin/hvdrun run -x A -- python3 train.py");
  EXPECT_THAT(commands[0].variables, Contains("A=b c"));
  EXPECT_THAT(plan.cleared, ElementsAre("PMIX_RANK", "SLURM_CPU_BIND"));
}

TEST(Command, SrunHandsOnWhatHvdrunSetsWhateverItExports) {
  RunOptions options;
  options.command = {"prog"};
  options.variables = {{"A", "secret"}};
  const auto exported = [&](const std::string& asked) {
    const Allocation allocation = batch_shell({{"SLURM_EXPORT_ENV", asked}});
    const Placement placement = place(options, allocation).value();
    EnvironmentPlan plan;
    plan.all = {{"A", "secret", "command line", ""}, {"HVD_X", "1", "default", ""}};
    const auto lines =
        build_commands(options, placement, plan, {}, allocation.environment, "h").at(0).variables;
    const auto found = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("SLURM_EXPORT_ENV=");
    });
    return found == lines.end() ? "" : found->substr(found->find('=') + 1);
  };
  EXPECT_EQ(exported("NONE"), "A,HVD_X");
  EXPECT_EQ(exported("PATH,B=2"), "PATH,B=2,A,HVD_X");
  EXPECT_EQ(exported("ALL,B=2"), "ALL,B=2");
}

TEST(Command, SrunOnFewerNodesGetsTheTasksOfThoseNodes) {
  RunOptions options;
  options.nodes = 1;
  options.command = {"prog"};
  Allocation allocation = batch_shell({{"SLURM_NTASKS", "4"}});
  allocation.launch = SrunLaunch{.tasks_per_node = {3, 1}};
  const Placement placement = place(options, allocation).value();
  const auto commands = build_commands(options, placement, {}, {}, allocation.environment, "h");
  EXPECT_EQ(shell_line(commands[0].arguments),
            "srun --label --input=0 --kill-on-bad-exit=0 --nodes=1 --ntasks=3 h run -- prog");
}

TEST(Command, QuotesForTheShell) {
  EXPECT_EQ(shell_line({"a", "", "it's", "$x"}), "a '' 'it'\\''s' '$x'");
}

TEST(Placement, RefusesABindingThatIsAskedForAndCannotBe) {
  RunOptions options = with_ranks(5);
  options.bind.policy = BindPolicy::kCores;
  EXPECT_THAT(place(options, laptop()).status().message(),
              HasSubstr("5 ranks share 4 cores (CPUs 0-7)"));
}

TEST(Placement, RanksStartedHereDoNotTakeATasksOwnGpuForTheirs) {
  const Variables step{
      {"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "2,3"}, {"SLURM_GPUS_ON_NODE", "4"}};
  const Placement placement = place(with_ranks(2), laptop(step)).value();
  EXPECT_EQ(placement.ranks[0].gpu, 0);
  EXPECT_EQ(placement.ranks[1].gpu, 1);
}

TEST(Placement, SaysHowManyGpusStayIdle) {
  EXPECT_THAT(place(with_ranks(1), laptop({}, 4)).value().warnings,
              Contains(HasSubstr("3 of 4 GPUs")));
}

TEST(EnvironmentPlan, ThreadsAreEachRanksOwnWhereTheirCpusDiffer) {
  RunOptions options = with_ranks(3);
  options.bind.policy = BindPolicy::kCores;
  const Allocation allocation = laptop();
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan = plan_environment(options, allocation, {}, placement, {});
  EXPECT_THAT(rank_environment(plan, {}, plan.each_rank.at(0)), Contains("OMP_NUM_THREADS=2"));
  EXPECT_THAT(rank_environment(plan, {}, plan.each_rank.at(2)), Contains("OMP_NUM_THREADS=1"));
}

TEST(EnvironmentPlan, ATaskCountsOnTheCpusSlurmWasAskedFor) {
  const Allocation allocation = task(0, 2, {{"SLURM_CPUS_PER_TASK", "2"}});
  const Placement placement = place({}, allocation).value();
  EXPECT_THAT(placement.ranks[0].cpus, ElementsAre(0, 1, 4, 5));
  const EnvironmentPlan plan = plan_environment({}, allocation, {}, placement, {});
  // Two CPUs are the two hardware threads of one core.
  EXPECT_EQ(value_of(plan.all, "OMP_NUM_THREADS"), "1 by default");
}

}  // namespace
}  // namespace hvd
