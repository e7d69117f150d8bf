// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/job_name.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

/// One rank of a job, as its launcher started it.
struct Rank {
  Variables variables;
  ProcessPlace place;
};

ProcessPlace on(const std::string& machine, const std::string& launcher = {}) {
  return {.host = machine, .machine = machine + "-boot/4026531840/1000", .launcher = launcher};
}

std::string number(int value) { return std::to_string(value); }

/// A rank of `torchrun` with its defaults, four ranks an agent.
Rank torchrun(int rank, const ProcessPlace& place, int nodes = 1, const Variables& more = {}) {
  Rank made{.variables = {{"RANK", number(rank)},
                          {"WORLD_SIZE", number(4 * nodes)},
                          {"LOCAL_RANK", number(rank % 4)},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"GROUP_RANK", number(rank / 4)},
                          {"GROUP_WORLD_SIZE", number(nodes)},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"}},
            .place = place};
  for (const auto& [name, value] : more) made.variables[name] = value;
  return made;
}

Rank by_hand(int rank, const std::string& machine, const std::string& address) {
  return {.variables = {{"RANK", number(rank)},
                        {"WORLD_SIZE", "2"},
                        {"MASTER_ADDR", address},
                        {"MASTER_PORT", "29500"}},
          .place = on(machine)};
}

Rank flux(int rank, const std::string& machine, const std::string& enclosing) {
  return {.variables = {{"FLUX_TASK_RANK", number(rank)},
                        {"FLUX_JOB_SIZE", "4"},
                        {"FLUX_JOB_NNODES", "2"},
                        {"FLUX_JOB_ID", "f2VLxCwYqj"},
                        {"FLUX_ENCLOSING_ID", enclosing},
                        {"FLUX_URI", "local:///tmp/flux-" + machine + "/local"}},
          .place = on(machine)};
}

Rank slurm(int rank, const std::string& machine, int nodes, const std::string& list) {
  const std::string layout = "1(x" + number(nodes) + ")";
  return {.variables = {{"SLURM_JOB_ID", "7"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_CLUSTER_NAME", "cluster"},
                        {"SLURM_PROCID", number(rank)},
                        {"SLURM_LOCALID", nodes == 1 ? number(rank) : "0"},
                        {"SLURM_NODEID", nodes == 1 ? "0" : number(rank)},
                        {"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", nodes == 1 ? "2" : layout},
                        {"SLURM_STEP_NODELIST", list}},
          .place = on(machine)};
}

Rank mpich(int rank, const std::string& machine, const std::string& proxy) {
  return {.variables = {{"PMI_RANK", number(rank)},
                        {"PMI_SIZE", "2"},
                        {"MPI_LOCALRANKID", number(rank)},
                        {"MPI_LOCALNRANKS", "2"}},
          .place = on(machine, proxy)};
}

Rank open_mpi(int rank, const std::string& machine) {
  return {.variables = {{"OMPI_COMM_WORLD_RANK", number(rank)},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", number(rank)},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "prterun-worker-12@1"}},
          .place = on(machine)};
}

Rank pals(int rank, const std::string& machine, const std::string& id) {
  return {.variables = {{"PALS_RANKID", number(rank)},
                        {"PALS_LOCAL_RANKID", "0"},
                        {"PALS_LOCAL_SIZE", "1"},
                        {"PALS_NODEID", number(rank)},
                        {"PMI_RANK", number(rank)},
                        {"PMI_SIZE", "2"},
                        {"PMI_LOCAL_RANK", "0"},
                        {"PMI_LOCAL_SIZE", "1"},
                        {"PALS_APID", id}},
          .place = on(machine)};
}

std::string name_of(const Rank& rank) {
  const Environment environment(rank.variables);
  const auto identity = derive_identity(environment);
  if (!identity.is_ok() || !identity.value()) return "no identity: " + identity.status().message();
  const auto name = name_job(environment, *identity.value(), rank.place);
  return name.is_ok() ? name.value().file() : name.status().message();
}

struct Case {
  std::string title;
  std::vector<Rank> job;  ///< All of one job.
  Rank other;             ///< Of another.
};

std::vector<Case> cases() {
  const Variables by_address = {{"MASTER_ADDR", "jz1"}};
  return {
      {"torchrun with its defaults on two hosts of one home",
       {torchrun(0, on("jz1", "40.7.1")), torchrun(3, on("jz1", "40.7.1"))},
       torchrun(1, on("jz2", "40.7.1"))},
      {"torchrun twice on one host, behind one port",
       {torchrun(0, on("jz1", "40.7.1")), torchrun(3, on("jz1", "40.7.1"))},
       torchrun(1, on("jz1", "41.9.1"))},
      {"torchrun on two nodes, whose agents count restarts apart",
       {torchrun(0, on("jz1", "40.7.1"), 2, by_address),
        torchrun(7, on("jz2", "50.8.1"), 2,
                 {{"MASTER_ADDR", "jz1"}, {"TORCHELASTIC_RESTART_COUNT", "1"}})},
       torchrun(7, on("jz2", "50.8.1"), 2, {{"MASTER_ADDR", "jz2"}})},
      {"torchrun: two agents of one host",
       {torchrun(0, on("jz1", "40.7.1"), 2), torchrun(7, on("jz1", "50.8.1"), 2)},
       torchrun(7, on("jz2", "50.8.1"), 2)},
      {"by hand, from two terminals",
       {by_hand(0, "jz1", "localhost"), by_hand(1, "jz1", "localhost")},
       by_hand(1, "jz2", "localhost")},
      {"by hand, on two hosts",
       {by_hand(0, "jz1", "jz1"), by_hand(1, "jz2", "jz1")},
       by_hand(1, "jz2", "jz2")},
      {"Flux: jobs of one number in two instances",
       {flux(0, "jz1", "fA"), flux(3, "jz2", "fA")},
       flux(3, "jz2", "fB")},
      {"Slurm: two clusters of one name, on one node each",
       {slurm(0, "jz1", 1, "jz1"), slurm(1, "jz1", 1, "jz1")},
       slurm(1, "jz2", 1, "jz1")},
      {"Slurm: two clusters of one name, on two nodes each",
       {slurm(0, "jz1", 2, "jz[1-2]"), slurm(1, "jz2", 2, "jz[1-2]")},
       slurm(1, "p2", 2, "p[1-2]")},
      {"MPICH", {mpich(0, "jz1", "9.1.1"), mpich(1, "jz1", "9.1.1")}, mpich(1, "jz1", "9.5.1")},
      {"MPICH: two containers, where processes have equal numbers",
       {mpich(0, "jz1", "9.1.1"), mpich(1, "jz1", "9.1.1")},
       mpich(1, "jz2", "9.1.1")},
      {"Open MPI: containers of one host name",
       {open_mpi(0, "c1"), open_mpi(1, "c1")},
       open_mpi(1, "c2")},
      {"PALS", {pals(0, "jz1", "5b6a"), pals(1, "jz2", "5b6a")}, pals(1, "jz2", "77aa")},
  };
}

TEST(JobName, IsOneForAllRanksOfAJobAndForNoOtherJob) {
  for (const Case& each : cases()) {
    const std::string first = name_of(each.job.front());
    EXPECT_EQ(first.find(' '), std::string::npos) << each.title << ": " << first;
    EXPECT_EQ(first, name_of(each.job.back())) << each.title;
    EXPECT_NE(first, name_of(each.other)) << each.title;
  }
}

TEST(JobName, AllowsRanksOfAHostNetworksOfTheirOwnWhereTheyNeedNoLoopback) {
  Rank zero = open_mpi(0, "jz1");
  Rank one = open_mpi(1, "jz1");
  one.place.machine = "jz1-boot/77/1000";
  EXPECT_EQ(name_of(zero), name_of(one));
  zero = by_hand(0, "jz1", "127.0.0.1");
  one = by_hand(1, "jz1", "127.0.0.1");
  one.place.machine = "jz1-boot/77/1000";
  EXPECT_NE(name_of(zero), name_of(one));
}

TEST(JobName, IsReadableAndShort) {
  const std::string name = name_of(
      torchrun(0, on("jz1", "4.7.1"), 1, {{"TORCHELASTIC_RUN_ID", std::string(300, 'x') + "/"}}));
  EXPECT_EQ(name.find("torchrun.29500.127.0.0.1.xxxx"), 0U) << name;
  EXPECT_LT(name.size(), 160U);
  const std::string other =
      name_of(torchrun(0, on("jz1", "4.7.1"), 1, {{"TORCHELASTIC_RUN_ID", std::string(300, 'x')}}));
  EXPECT_NE(name, other);
}

TEST(JobName, SaysWhatIsMissing) {
  Rank rank = torchrun(0, on("jz1"));
  rank.variables.erase("MASTER_PORT");
  EXPECT_NE(name_of(rank).find("torchrun started the ranks, but MASTER_PORT is not set"),
            std::string::npos);
  Rank far = mpich(0, "jz1", "9.1.1");
  far.variables["MPI_LOCALNRANKS"] = "1";
  EXPECT_NE(name_of(far).find("several hosts"), std::string::npos);
}

TEST(LauncherProcess, IsTheNearestAncestorThatIsNoRank) {
  // Nobody above this test was started with the variable: its parent is the launcher.
  const std::string parent = launcher_process("HVD_TEST_NO_SUCH_VARIABLE");
  EXPECT_EQ(parent.find(std::to_string(::getppid()) + "."), 0U) << parent;
  // A child that this process forks has this process as its launcher.
  const pid_t parent_of_child = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string mine = launcher_process("HVD_TEST_NO_SUCH_VARIABLE");
    ::_exit(mine.find(std::to_string(parent_of_child) + ".") == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hvd
