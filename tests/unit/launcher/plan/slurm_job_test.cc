// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/slurm_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/command.h"
#include "launcher/plan/placement.h"

namespace hvd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

Variables two_parts() {
  return {{"SLURM_JOB_ID", "14"},
          {"SLURM_HET_SIZE", "2"},
          {"SLURM_JOB_NODELIST", "jz1"},  // Of part 0, in a batch shell.
          {"SLURM_TASKS_PER_NODE", "2"},
          {"SLURM_NTASKS", "2"},
          {"SLURM_CPUS_PER_TASK", "10"},
          {"SLURM_JOB_NODELIST_HET_GROUP_0", "jz1"},
          {"SLURM_JOB_NODELIST_HET_GROUP_1", "p2n[1-2]"},
          {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "2"},
          {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "3(x2)"}};
}

TEST(SlurmJob, ReadsNodesAndTasks) {
  const SlurmJob job = read_slurm_job(Environment(Variables{{"SLURM_JOB_NODELIST", "jz[1-3]"},
                                                            {"SLURM_TASKS_PER_NODE", "4(x2),2"}}))
                           .value();
  EXPECT_THAT(job.hosts, ElementsAre("jz1", "jz2", "jz3"));
  EXPECT_THAT(job.tasks_per_node, ElementsAre(4, 4, 2));
  EXPECT_EQ(job.parts, 1);
}

TEST(SlurmJob, JoinsThePartsOfAHeterogeneousJob) {
  const SlurmJob job = read_slurm_job(Environment(two_parts())).value();
  EXPECT_THAT(job.hosts, ElementsAre("jz1", "p2n1", "p2n2"));
  EXPECT_THAT(job.tasks_per_node, ElementsAre(2, 3, 3));
  EXPECT_EQ(job.parts, 2);
}

TEST(SlurmJob, SaysWhatToTypeWhereAPartIsNotTold) {
  Variables variables = two_parts();
  variables.erase("SLURM_TASKS_PER_NODE_HET_GROUP_1");
  const auto job = read_slurm_job(Environment(variables));
  ASSERT_FALSE(job.is_ok());
  EXPECT_EQ(job.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(job.status().message(),
              HasSubstr("SLURM_TASKS_PER_NODE_HET_GROUP_1 is not set: start one step over all "
                        "parts of this heterogeneous job with `srun --het-group=0-1 hvdrun"));
}

TEST(SlurmJob, RefusesWhatDoesNotFit) {
  Variables variables = two_parts();
  variables["SLURM_TASKS_PER_NODE_HET_GROUP_1"] = "3";
  EXPECT_THAT(read_slurm_job(Environment(variables)).status().message(),
              HasSubstr("SLURM_JOB_NODELIST_HET_GROUP_1 has 2 nodes"));
  EXPECT_THAT(read_slurm_job(Environment()).status().message(), HasSubstr("srun hvdrun PROGRAM"));
}

TEST(SlurmJob, OneSrunStartsAllParts) {
  const SlurmJob job = read_slurm_job(Environment(two_parts())).value();
  Allocation allocation;
  allocation.launch = SrunLaunch{job.tasks_per_node, job.parts};
  allocation.environment = Environment(two_parts());
  allocation.host = "jz1";
  allocation.hosts = job.hosts;
  RunOptions options;
  options.command = {"prog"};
  const Placement placement = place(options, allocation).value();
  EXPECT_EQ(placement.size, 8);
  const auto commands =
      build_commands(options, placement, {}, {}, allocation.environment, "hvdrun");
  EXPECT_THAT(commands.at(0).arguments, Contains("--het-group=0-1"));
  // SLURM_CPUS_PER_TASK is part 0's alone.
  EXPECT_THAT(commands.at(0).arguments, Not(Contains(HasSubstr("--cpus-per-task"))));
  options.nodes = 1;
  EXPECT_THAT(place(options, allocation).status().message(), HasSubstr("heterogeneous job"));
}

TEST(RanksProgram, IsTheOneThatSrunStartsInEachTask) {
  Command srun;
  srun.program = "/usr/bin/srun";
  srun.arguments = {"srun", "--label", "/opt/bin/hvdrun", "run", "--", "train"};
  EXPECT_EQ(ranks_program(srun), "train");
  srun.arguments.emplace_back("--lr=1");
  EXPECT_EQ(ranks_program(srun), "train");
  Command rank = srun;
  rank.rank = 0;
  rank.program = "/home/me/train";
  EXPECT_EQ(ranks_program(rank), "/home/me/train");
}

/// Warnings of `hvdrun -np 8` among these variables, on jz1.
std::vector<std::string> warnings_of(const Variables& variables, int ranks,
                                     std::optional<int> nodes = std::nullopt) {
  Allocation allocation;
  allocation.environment = Environment(variables);
  allocation.host = "jz1";
  allocation.hosts = {"jz1"};
  RunOptions options;
  options.ranks = ranks;
  options.nodes = nodes;
  options.command = {"prog"};
  return place(options, allocation).value().warnings;
}

TEST(SlurmJob, SaysThatRanksOfNpLeaveTheOtherNodesIdle) {
  const Variables job{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz[1-2]"}};
  EXPECT_THAT(warnings_of(job, 8),
              ElementsAre("-np: all 8 ranks start on this machine (jz1), and the job has 2 nodes: "
                          "leave -np out to start its tasks on all of them, or add --nodes 1 if "
                          "this machine is meant"));
  EXPECT_THAT(warnings_of(two_parts(), 8), ElementsAre(HasSubstr("the job has 3 nodes")));
}

TEST(SlurmJob, SaysNothingWhereRanksOfNpAreMeantForThisMachine) {
  const Variables job{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz[1-2]"}};
  EXPECT_TRUE(warnings_of(job, 8, 1).empty());
  EXPECT_TRUE(warnings_of(job, 8, 2).empty()) << "virtual nodes, said on purpose";
  EXPECT_TRUE(warnings_of(job, 1).empty()) << "a single process";
  EXPECT_TRUE(warnings_of({}, 8).empty());
  EXPECT_TRUE(warnings_of({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz1"}}, 8).empty());
  EXPECT_TRUE(warnings_of({{"SLURM_JOB_ID", "7"}}, 8).empty()) << "the nodes are not known";
  Variables step = job;
  step.insert({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
  EXPECT_TRUE(warnings_of(step, 8).empty()) << "srun hvdrun -np 8: a job on each node";
  Variables of_mpirun = job;
  of_mpirun.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  of_mpirun.insert({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_TRUE(warnings_of(of_mpirun, 8).empty()) << "mpirun hvdrun -np 8";
  Variables of_hvdrun = job;
  of_hvdrun.insert({{"HVD_RANK", "0"}, {"HVD_SIZE", "2"}});
  of_hvdrun.insert({{"HVD_LOCAL_RANK", "0"}, {"HVD_LOCAL_SIZE", "2"}});
  EXPECT_TRUE(warnings_of(of_hvdrun, 8).empty()) << "a rank that starts ranks";
}

/// What hvdrun says to the identity that such variables make in the shell of a job.
std::string said_to_left_overs(Variables shell, const Variables& left) {
  shell.insert(left.begin(), left.end());
  const Environment environment(shell);
  return refuse_left_over(derive_identity(environment).value().value(), environment).message();
}

TEST(SlurmJob, RefusesTheOnlyRankOfAnotherLaunch) {
  const Variables job{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz[1-2]"}};
  EXPECT_EQ(said_to_left_overs(job, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}),
            "WORLD_SIZE=1 says that this is the only rank of a job, and this is a shell of Slurm "
            "job 7 with 2 tasks: type `unset RANK WORLD_SIZE` where an earlier program has left "
            "them, or `hvdrun -np 1 PROGRAM` for one rank on this machine");
  const Variables torchrun{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "x"}};
  EXPECT_THAT(said_to_left_overs(job, torchrun), HasSubstr("RANK WORLD_SIZE TORCHELASTIC_RUN_ID"));
  EXPECT_THAT(said_to_left_overs(job, {{"HVD_RANK", "0"}, {"HVD_SIZE", "1"}}),
              HasSubstr("unset HVD_RANK HVD_SIZE"));
  const Variables of_tasks{
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz1"}, {"SLURM_TASKS_PER_NODE", "4"}};
  EXPECT_THAT(said_to_left_overs(of_tasks, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}),
              HasSubstr("with 4 tasks: type `unset PMI_RANK PMI_SIZE`"));
}

TEST(SlurmJob, TakesTheOnlyRankOfALaunchThatRuns) {
  const Variables job{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz[1-2]"}};
  EXPECT_EQ(said_to_left_overs(job, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "");
  const Variables hvdrun{{"HVD_RANK", "0"}, {"HVD_SIZE", "1"}, {"HVD_STORE", "127.0.0.1:5"}};
  EXPECT_EQ(said_to_left_overs(job, hvdrun), "");
  const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  EXPECT_EQ(said_to_left_overs(job, mpirun), "");
  const Variables one{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz1"}};
  EXPECT_EQ(said_to_left_overs(one, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(said_to_left_overs({}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
}

TEST(SlurmJob, ARefusalOfRanksOfNpNamesTheOtherNodesToo) {
  Allocation allocation;
  allocation.environment =
      Environment(Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "jz[1-2]"}});
  allocation.host = "jz1";
  allocation.gpus_on_machine = 4;
  RunOptions options;
  options.ranks = 8;
  options.command = {"prog"};
  const Status refusal = place(options, allocation).status();
  EXPECT_EQ(refusal.code(), Code::kInvalidArgument);
  EXPECT_THAT(refusal.message(), HasSubstr("only 4 GPUs"));
  EXPECT_THAT(refusal.message(), HasSubstr("the job has 2 nodes: leave -np out"));
}

TEST(SlurmJob, KnowsTheShellOfAPtyStep) {
  const Variables shell{{"SLURM_JOB_ID", "18"},        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PTY_PORT", "46599"},
                        {"SLURM_TASK_PID", "520"},     {"SLURM_PROCID", "0"}};
  EXPECT_TRUE(in_pty_shell(Environment(shell), 521, true));
  EXPECT_FALSE(in_pty_shell(Environment(shell), 520, true)) << "srun --pty hvdrun PROGRAM";
  EXPECT_FALSE(in_pty_shell(Environment(shell), 521, false)) << "a step inside, without a terminal";
  Variables two = shell;
  two["SLURM_STEP_NUM_TASKS"] = "2";
  EXPECT_FALSE(in_pty_shell(Environment(two), 521, true));
  Variables plain = shell;
  plain.erase("SLURM_PTY_PORT");
  EXPECT_FALSE(in_pty_shell(Environment(plain), 521, true));
}

}  // namespace
}  // namespace hvd
