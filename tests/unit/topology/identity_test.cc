// SPDX-License-Identifier: Apache-2.0
#include "topology/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using ::testing::HasSubstr;

/// Task 5 of `srun -N3 -n10`, as recorded on a cluster with Slurm 22.05.
Variables slurm_task() {
  return {{"SLURM_JOB_ID", "23"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "5"},
          {"SLURM_STEP_NUM_TASKS", "10"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2"},
          {"SLURM_STEP_NODELIST", "jz[1-3]"},
          {"SLURM_NTASKS", "10"}};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

struct IdentityCase {
  std::string name;
  Variables variables;
  std::string source;  ///< Empty: no rank.
  int rank = 0;
  int size = 0;
  int local_rank = -1;
  int local_size = -1;
  int node = -1;
};

Variables mpirun_rank() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_RANK", "3"},
          {"PMIX_NAMESPACE", "2719612929"}};
}

Variables batch_shell() {
  return {{"SLURM_JOB_ID", "23"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},  {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}};
}

std::vector<IdentityCase> cases() {
  const Variables mpirun = mpirun_rank();
  const Variables batch = batch_shell();
  return {
      {"LoginShell", {{"HOME", "/root"}}, ""},
      {"EmptyVariables", {{"RANK", ""}, {"WORLD_SIZE", ""}, {"SLURM_PROCID", ""}}, ""},
      {"BatchShell", batch, ""},
      {"BatchShellOfNewSlurm",
       with(batch, {{"SLURM_STEP_ID", "-5"}, {"SLURM_STEP_NUM_TASKS", "1"}}), ""},
      {"InteractiveStep",
       with(batch, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}}), ""},
      {"PalsInATaskOfHvdrun",
       {{"PALS_RANKID", "0"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"HVD_RANK_OF", "/1"}},
       "PALS"},
      {"SrunUneven", slurm_task(), "Slurm step", 5, 10, 1, 4, 1},
      {"SrunPmix", with(slurm_task(), {{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "slurm.pmix.23.0"}}),
       "Slurm step", 5, 10, 1, 4, 1},
      {"SrunPmi2", with(slurm_task(), {{"PMI_RANK", "5"}, {"PMI_SIZE", "10"}, {"PMI_FD", "7"}}),
       "Slurm step", 5, 10, 1, 4, 1},
      {"SrunUnderHvdrun", with(slurm_task(), {{"HVD_RANK", "5"}, {"HVD_SIZE", "10"}}), "hvdrun", 5,
       10, 1, 4, 1},
      {"Mpirun", mpirun, "Open MPI", 3, 4, 1, 2},
      {"MpirunInSalloc", with(mpirun, batch), "Open MPI", 3, 4, 1, 2},
      {"MpirunStartedByAStepOfDaemons", with(slurm_task(), mpirun), "Open MPI", 3, 4, 1, 2},
      {"HydraInAStep",
       with(slurm_task(), {{"PMI_RANK", "1"},
                           {"PMI_SIZE", "2"},
                           {"MPI_LOCALRANKID", "1"},
                           {"MPI_LOCALNRANKS", "2"}}),
       "MPICH", 1, 2, 1, 2},
      {"TorchrunInAStep",
       with(slurm_task(), {{"RANK", "6"},
                           {"WORLD_SIZE", "12"},
                           {"LOCAL_RANK", "2"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"GROUP_RANK", "1"},
                           {"TORCHELASTIC_RUN_ID", "x"}}),
       "torchrun", 6, 12, 2, 4, 1},
      {"PlainRankVariables", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "RANK and WORLD_SIZE", 1, 2},
      {"RankWithoutWorld", {{"RANK", "1"}}, ""},
      {"PmixAlone", {{"PMIX_RANK", "2"}}, "PMIx", 2, 0},
      {"Pals",
       {{"PALS_RANKID", "2"},
        {"PMI_RANK", "2"},
        {"PMI_SIZE", "4"},
        {"PALS_LOCAL_RANKID", "0"},
        {"PMI_LOCAL_SIZE", "2"},
        {"PALS_NODEID", "1"}},
       "PALS",
       2,
       4,
       0,
       2,
       1},
      {"Flux",
       {{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_LOCAL_ID", "1"}},
       "Flux",
       1,
       2,
       1},
  };
}

TEST(Identity, IsDerivedFromEveryLauncher) {
  for (const IdentityCase& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto result = derive_identity(Environment(one.variables));
    ASSERT_TRUE(result.is_ok()) << result.status().message();
    const auto& identity = result.value();
    ASSERT_EQ(identity.has_value(), !one.source.empty());
    if (!identity) continue;
    EXPECT_EQ(identity->source, one.source);
    EXPECT_EQ(identity->rank, one.rank);
    EXPECT_EQ(identity->size, one.size);
    EXPECT_EQ(identity->local_rank, one.local_rank);
    EXPECT_EQ(identity->local_size, one.local_size);
    EXPECT_EQ(identity->node, one.node);
  }
}

struct ConflictCase {
  Variables more;
  std::string message;
};

TEST(Identity, RefusesAConflictAndNamesBothSides) {
  const std::vector<ConflictCase> conflicts{
      {{{"HVD_RANK", "0"}, {"HVD_SIZE", "10"}},
       "HVD_RANK (hvdrun) is 0, SLURM_PROCID (Slurm step) is 5"},
      {{{"PMIX_RANK", "4"}}, "SLURM_PROCID (Slurm step) is 5, PMIX_RANK (PMIx) is 4"},
      // Exported once in the batch script: the same rank in every task.
      {{{"RANK", "0"}, {"WORLD_SIZE", "10"}}, "RANK (RANK and WORLD_SIZE) is 0"},
      {{{"PMI_RANK", "5"}, {"PMI_SIZE", "20"}}, "PMI_SIZE (PMI) is 20"},
      {{{"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}}, "adds up to 8 tasks, SLURM_STEP_NUM_TASKS is 10"},
      {{{"SLURM_STEP_NODELIST", "jz[1-2]"}}, "has 2 nodes"},
      {{{"SLURM_STEP_NODELIST", "jz[1-"}}, "is not a hostlist"},
      {{{"SLURM_NODEID", "3"}}, "SLURM_NODEID=3 is not a node"},
      {{{"SLURM_PROCID", "10"}}, "SLURM_PROCID=10 is not below SLURM_STEP_NUM_TASKS=10"},
      {{{"SLURM_LOCALID", "4"}}, "SLURM_LOCALID=4 is not below the 4 ranks of its node"},
      {{{"SLURM_PROCID", "five"}}, "SLURM_PROCID='five' is not a whole number"},
  };
  for (const ConflictCase& one : conflicts) {
    const auto result = derive_identity(Environment(with(slurm_task(), one.more)));
    ASSERT_FALSE(result.is_ok()) << one.message;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.status().message(), HasSubstr(one.message));
  }
}

TEST(Identity, RefusesWhatDoesNotFitTogether) {
  const std::vector<ConflictCase> conflicts{
      {{{"PALS_RANKID", "3"},
        {"PALS_LOCAL_RANKID", "3"},
        {"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"PMI_LOCAL_SIZE", "2"}},
       "PALS_LOCAL_RANKID (PALS) is 3, PMI_LOCAL_SIZE (PMI) is 2"},
      {{{"FLUX_TASK_RANK", "3"},
        {"FLUX_JOB_SIZE", "4"},
        {"FLUX_TASK_LOCAL_ID", "1"},
        {"FLUX_JOB_NNODES", "4"}},
       "FLUX_TASK_LOCAL_ID (Flux) is 1, FLUX_JOB_SIZE (Flux) is 4 and FLUX_JOB_NNODES (Flux) is 4 "
       "leave 1 to a node"},
      {{{"FLUX_TASK_RANK", "1"},
        {"FLUX_JOB_SIZE", "2"},
        {"FLUX_TASK_LOCAL_ID", "2"},
        {"FLUX_JOB_NNODES", "1"}},
       "FLUX_TASK_LOCAL_ID (Flux) is 2, FLUX_JOB_SIZE (Flux) is 2 and FLUX_JOB_NNODES (Flux) is 1 "
       "leave 2 to a node"},
      {{{"PALS_RANKID", "1"},
        {"PALS_NODEID", "2"},
        {"FLUX_TASK_RANK", "1"},
        {"FLUX_JOB_SIZE", "2"},
        {"FLUX_JOB_NNODES", "2"}},
       "PALS_NODEID (PALS) is 2, FLUX_JOB_NNODES (Flux) is 2"},
      {{{"PALS_RANKID", "1"}, {"PALS_LOCAL_SIZE", "4"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}},
       "PALS_LOCAL_SIZE (PALS) is 4, WORLD_SIZE (RANK and WORLD_SIZE) is 2"},
  };
  for (const ConflictCase& one : conflicts) {
    const auto result = derive_identity(Environment(one.more));
    ASSERT_FALSE(result.is_ok()) << one.message;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.status().message(), HasSubstr(one.message));
    EXPECT_THAT(result.status().message(), HasSubstr("unset those of the launcher"));
  }
}

TEST(Identity, SetsAsideAStepOnOtherNodesThanFlux) {
  // Rank 0 has the same numbers in both; only the count of nodes tells the job from its brokers.
  const auto result = derive_identity(Environment(with(slurm_task(), {{"SLURM_PROCID", "0"},
                                                                      {"SLURM_LOCALID", "0"},
                                                                      {"SLURM_NODEID", "0"},
                                                                      {"FLUX_TASK_RANK", "0"},
                                                                      {"FLUX_JOB_SIZE", "10"},
                                                                      {"FLUX_TASK_LOCAL_ID", "0"},
                                                                      {"FLUX_JOB_NNODES", "1"}})));
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_TRUE(result.value()->details[1].outer);
  EXPECT_EQ(result.value()->local_size, 10);
}

TEST(Identity, MarksTheStepAroundMpirunAsOuter) {
  const auto result = derive_identity(Environment(
      with(slurm_task(), {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}})));
  ASSERT_TRUE(result.is_ok());
  ASSERT_EQ(result.value()->details.size(), 2U);
  EXPECT_FALSE(result.value()->details[0].outer);
  EXPECT_TRUE(result.value()->details[1].outer);
}

/// hvdrun sets RANK and its like in tasks, and what a task starts inherits them.
TEST(Identity, SetsAsideTheRankOfAnotherStep) {
  std::map<std::string, std::string, std::less<>> variables{
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"HVD_RANK_OF", "7.4/3"}, {"SLURM_JOB_ID", "8"}};
  EXPECT_FALSE(derive_identity(Environment(variables)).value().has_value()) << "of a batch shell";
  variables.insert({{"SLURM_STEP_ID", "0"},
                    {"SLURM_PROCID", "1"},
                    {"SLURM_LOCALID", "1"},
                    {"SLURM_NODEID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "2"}});
  const auto identity = derive_identity(Environment(variables));
  ASSERT_TRUE(identity.is_ok()) << identity.status().message();
  EXPECT_EQ(identity.value()->rank, 1);
  EXPECT_EQ(identity.value()->size, 2);
  variables.insert_or_assign("RANK", "0");  // the user's own by now
  EXPECT_FALSE(derive_identity(Environment(variables)).is_ok());
}

TEST(Identity, IsDescribedWithAllThatAgreeAndAllAround) {
  const auto text = [](const Variables& variables) {
    return describe_identity(*derive_identity(Environment(variables)).value());
  };
  EXPECT_EQ(text(with(slurm_task(), {{"PMIX_RANK", "5"}})), "rank 5 of 10 by Slurm step, PMIx");
  EXPECT_EQ(text(with(slurm_task(), mpirun_rank())),
            "rank 3 of 4 by Open MPI, PMIx; around it: Slurm step");
  EXPECT_EQ(text({{"PMIX_RANK", "2"}}), "rank 2 of ? by PMIx");
}

TEST(Identity, OfAnEqualLauncherMustBeReadable) {
  const Variables broken{{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}};
  EXPECT_FALSE(derive_identity(Environment(with(slurm_task(), broken))).is_ok());
  const auto mpirun = derive_identity(Environment(with(mpirun_rank(), broken)));
  ASSERT_TRUE(mpirun.is_ok()) << "it may be around mpirun: " << mpirun.status().message();
  EXPECT_EQ(mpirun.value()->source, "Open MPI");
}

TEST(Identity, FindsASizeThatCameWithoutARank) {
  const auto found = [](Variables variables) {
    return size_without_rank(Environment(std::move(variables)));
  };
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({{"WORLD_SIZE", "1"}, {"PMI_SIZE", "0"}}), "");
  EXPECT_EQ(found({{"WORLD_SIZE", "2"}}), "WORLD_SIZE");
  EXPECT_EQ(found({{"WORLD_SIZE", "2"}, {"RANK", "0"}}), "");
  EXPECT_EQ(found({{"WORLD_SIZE", "2"}, {"RANK", ""}}), "WORLD_SIZE");
  EXPECT_EQ(found({{"WORLD_SIZE", ""}}), "") << "an empty value tells nothing";
  EXPECT_EQ(found({{"HVD_SIZE", "4"}}), "HVD_SIZE");
  EXPECT_EQ(found({{"PMI_SIZE", "x"}}), "PMI_SIZE");
  EXPECT_EQ(found({{"FLUX_JOB_SIZE", "4"}}), "") << "shells of its jobs have it";
}

TEST(Identity, TellsStepsFromShells) {
  EXPECT_TRUE(in_slurm_step(Environment(slurm_task())));
  EXPECT_FALSE(in_slurm_shell(Environment(slurm_task())));
  const Environment batch(Variables{{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}});
  EXPECT_FALSE(in_slurm_step(batch));
  EXPECT_TRUE(in_slurm_shell(batch));
  EXPECT_FALSE(in_slurm_shell(Environment()));
}

}  // namespace
}  // namespace hvd
