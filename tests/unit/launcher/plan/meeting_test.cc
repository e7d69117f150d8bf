// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/plan/machine_environment.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

const Provenance kPage{"page", "2026-10", "documented"};

SiteConfig slingshot_site() {
  SiteConfig site;
  site.id = "x";
  site.bootstrap_if = "hsn0,hsn1,hsn2";
  site.provenance = kPage;
  return site;
}

SiteFacts on_nodes(int nodes) {
  SiteFacts facts;
  facts.nodes = nodes;
  return facts;
}

std::map<std::string, std::string> offered_values(const std::vector<PlannedVariable>& variables) {
  std::map<std::string, std::string> found;
  for (const PlannedVariable& variable : variables) {
    EXPECT_TRUE(found.emplace(variable.name, variable.value).second) << variable.name;
  }
  return found;
}

std::map<std::string, std::string> reasons(const std::vector<UnsetVariable>& variables) {
  std::map<std::string, std::string> found;
  for (const UnsetVariable& variable : variables) found.emplace(variable.name, variable.why_not);
  return found;
}

Allocation task_with(const std::map<std::string, std::string>& more = {}) {
  Allocation allocation;
  Identity identity;
  identity.source = kSlurmStep;
  identity.details.resize(1);
  identity.details[0].source = kSlurmStep;
  allocation.launch = TaskLaunch{identity};
  allocation.hosts = {"jwb0001", "jwb0002"};
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"SLURM_JOB_ID", "123456"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "2"},
                                          {"SLURM_STEP_NODELIST", "jwb[0001-0002]"}}) {
    allocation.environment.set(name, value);
  }
  for (const auto& [name, value] : more) allocation.environment.set(name, value);
  return allocation;
}

/// A task in a recorded situation, on the nodes of the step around it.
Allocation recorded_task(const std::string& file) {
  Allocation allocation;
  std::ifstream stream(std::filesystem::path(HVD_ENVIRONMENTS_DIR) / file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t sign = line.find('=');
    if (line.starts_with("#") || sign == std::string::npos) continue;
    allocation.environment.set(line.substr(0, sign), line.substr(sign + 1));
  }
  allocation.launch = TaskLaunch{derive_identity(allocation.environment).value().value()};
  allocation.hosts = {"jz1", "jz2"};
  return allocation;
}

TEST(BootstrapInterfaces, GoToEveryLibraryThatAsks) {
  MeetingFacts meeting;
  meeting.interfaces = {"lo", "hsn0", "hsn2", "eth0"};
  const OfferedEnvironment offered =
      offer_interfaces(slingshot_site(), on_nodes(2), meeting, false);
  EXPECT_THAT(offered_values(offered.variables),
              UnorderedElementsAre(Pair("HVD_BOOTSTRAP_INTERFACE", "hsn0,hsn2"),
                                   Pair("NCCL_SOCKET_IFNAME", "hsn0,hsn2"),
                                   Pair("GLOO_SOCKET_IFNAME", "hsn0")));
  for (const PlannedVariable& variable : offered.variables) {
    EXPECT_EQ(variable.origin, "site x");
    EXPECT_EQ(variable.provenance.source, "page");
  }
}

TEST(BootstrapInterfaces, AreNotSetWhereTheyWouldNotHelp) {
  SiteConfig site = slingshot_site();
  MeetingFacts meeting;
  meeting.interfaces = {"hsn0"};
  EXPECT_THAT(reasons(offer_interfaces(site, on_nodes(1), meeting, false).unset),
              testing::Contains(Pair("NCCL_SOCKET_IFNAME", "nodes>1: nodes is 1")));
  meeting.interfaces = {"lo", "eth0"};
  const OfferedEnvironment absent = offer_interfaces(site, on_nodes(2), meeting, false);
  EXPECT_THAT(absent.variables, IsEmpty());
  EXPECT_THAT(
      reasons(absent.unset),
      testing::Contains(Pair("GLOO_SOCKET_IFNAME", "no such interface of this node is up")));
  site.provenance.mark = "assumed";
  meeting.interfaces.reset();  // "hvdrun env --fabric": as on a node that has them
  EXPECT_THAT(offer_interfaces(site, on_nodes(2), meeting, false).variables, IsEmpty());
  EXPECT_EQ(offer_interfaces(site, on_nodes(2), meeting, true).variables.size(), 3U);
  site.bootstrap_if.clear();
  EXPECT_THAT(offer_interfaces(site, on_nodes(2), meeting, true).unset, IsEmpty());
}

TEST(BootstrapInterfaces, ArePartitionsOwn) {
  SiteConfig site = slingshot_site();
  site.partitions.resize(2);
  site.partitions[0].name = "standard";
  site.partitions[0].bootstrap_if = site.bootstrap_if;
  site.partitions[1].name = "old";
  site.partitions[1].bootstrap_if = "ib0";
  site.partitions[1].provenance = {"old page", "2020", "documented"};
  EXPECT_THAT(bootstrap_interfaces(site, "old"), ElementsAre("ib0"));
  EXPECT_THAT(bootstrap_interfaces(site, ""), ElementsAre("hsn0", "hsn1", "hsn2"));
  MeetingFacts meeting;
  meeting.partition = "old";
  const auto offered = offer_interfaces(site, on_nodes(2), meeting, false).variables;
  ASSERT_FALSE(offered.empty());
  EXPECT_EQ(offered[0].provenance.source, "old page");
}

TEST(BootstrapInterfaces, StandBehindASitesOwnVariablesAndBeforeTheFabrics) {
  SiteConfig site = slingshot_site();
  site.env = {{"NCCL_SOCKET_IFNAME", "hsn", "nodes>1", "w", kPage}};
  const std::vector<SiteVariable> fabric{{"GLOO_SOCKET_IFNAME", "eth0", "nodes>1", "w", kPage}};
  const MachineEnvironment machine = plan_machine(site, fabric, on_nodes(2), false);
  std::vector<std::pair<std::string, std::string>> offered;
  for (const PlannedVariable& variable : machine.offered) {
    offered.emplace_back(variable.name, variable.value);
  }
  EXPECT_THAT(offered,
              ElementsAre(Pair("NCCL_SOCKET_IFNAME", "hsn"),
                          Pair("HVD_BOOTSTRAP_INTERFACE", "hsn0,hsn1,hsn2"),
                          Pair("GLOO_SOCKET_IFNAME", "hsn0"), Pair("GLOO_SOCKET_IFNAME", "eth0")));
}

TEST(MasterAddress, IsTheNodeOfRankZeroByItsNameOnTheFastNetwork) {
  SiteConfig site;
  site.id = "juwels";
  const MeetingFacts meeting = read_meeting(task_with(), true);
  const auto offered = [&](int nodes) {
    return offered_values(offer_master(site, on_nodes(nodes), meeting, false).variables);
  };
  EXPECT_EQ(offered(2)["MASTER_ADDR"], "jwb0001");
  site.master_addr_suffix = "i";
  site.provenance = kPage;
  EXPECT_EQ(offered(2)["MASTER_ADDR"], "jwb0001i");
  EXPECT_EQ(offered(1)["MASTER_ADDR"], "jwb0001");
  EXPECT_THAT(offer_master(site, on_nodes(2), meeting, false).variables[0].why,
              HasSubstr("master_addr_suffix: i"));
  site.provenance.mark = "assumed";
  EXPECT_EQ(offered(2)["MASTER_ADDR"], "jwb0001");
}

TEST(MasterAddress, PutsTheSuffixBeforeTheDomain) {
  SiteConfig site;
  site.master_addr_suffix = "i";
  Allocation allocation = task_with();
  allocation.hosts = {"n1.cluster"};
  const auto offered =
      offer_master(site, on_nodes(2), read_meeting(allocation, true), false).variables;
  EXPECT_EQ(offered_values(offered)["MASTER_ADDR"], "n1i.cluster");
}

TEST(MasterAddress, IsLeftOutWhereTheNodeOfRankZeroIsNotKnown) {
  const SiteConfig site;
  const auto reason = [&](const std::string& name, const std::string& value) {
    const auto offered =
        offer_master(site, on_nodes(2), read_meeting(task_with({{name, value}}), true), false);
    EXPECT_THAT(offered.variables, IsEmpty());
    return reasons(offered.unset)["MASTER_ADDR"];
  };
  EXPECT_THAT(reason("SLURM_HET_SIZE", "2"), HasSubstr("heterogeneous"));
  EXPECT_THAT(reason("SLURM_DISTRIBUTION", "arbitrary"), HasSubstr("any node"));
  Allocation other = task_with();  // of a Slurm that does not say the nodes
  other.environment.unset("SLURM_STEP_NODELIST");
  const auto none = offer_master(site, on_nodes(2), read_meeting(other, true), false);
  EXPECT_THAT(none.variables, IsEmpty());
  EXPECT_THAT(none.unset, IsEmpty());
}

TEST(MasterAddress, IsNotTakenFromTheStepOfMpirunsDaemons) {
  const auto offered = [](const Allocation& allocation) {
    return offer_master(SiteConfig(), on_nodes(2), read_meeting(allocation, false), false);
  };
  for (const char* file :
       {"openmpi_4_in_salloc.env", "openmpi_5_in_salloc.env", "mpich_in_salloc.env",
        "intel_mpi_in_salloc.env", "flux_in_slurm.env", "torchrun_in_step.env"}) {
    const OfferedEnvironment none = offered(recorded_task(file));
    EXPECT_THAT(none.variables, IsEmpty()) << file;
    EXPECT_THAT(none.unset, IsEmpty()) << file;
  }
  for (const char* file : {"slurm_step_pmix.env", "slurm_step_pmi2.env"}) {
    EXPECT_EQ(offered_values(offered(recorded_task(file)).variables)["MASTER_ADDR"], "jz1") << file;
  }
}

/// One rank a node, of the same numbers as the daemons: some ranks could not tell the two apart.
TEST(MasterAddress, IsNotTakenFromDaemonsThatAgreeWithTheirRanks) {
  Allocation allocation = recorded_task("openmpi_5_in_salloc.env");
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_SIZE", "1"}, {"SIZE", "2"}}) {
    allocation.environment.set("OMPI_COMM_WORLD_" + name, value);
  }
  allocation.environment.set("PMIX_RANK", "1");
  allocation.launch = TaskLaunch{derive_identity(allocation.environment).value().value()};
  ASSERT_TRUE(is_started_by(allocation.task()->identity, kSlurmStep));
  EXPECT_EQ(read_meeting(allocation, false).first_host, "");
}

TEST(MasterPort, DiffersBetweenStepsAndIsOneForAllTasks) {
  const auto port = [](const std::string& job, const std::string& step) {
    return read_meeting(task_with({{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}), true).port;
  };
  EXPECT_EQ(port("123456", "0"), 23456);
  EXPECT_EQ(port("123456", "1"), 24465);
  EXPECT_EQ(port("123457", "0"), 23457);
  EXPECT_EQ(port("4294967295", "9"), port("4294967295", "9"));
  EXPECT_EQ(port("x", "0"), std::nullopt);
  Allocation shell = task_with();
  shell.launch = SrunLaunch();
  const MeetingFacts meeting = read_meeting(shell, true);
  EXPECT_EQ(meeting.first_host, "jwb0001");
  const auto offered = offer_master(SiteConfig(), on_nodes(2), meeting, false);
  EXPECT_EQ(offered_values(offered.variables).count("MASTER_PORT"), 0U);
  EXPECT_THAT(reasons(offered.unset)["MASTER_PORT"], HasSubstr("each task"));
}

}  // namespace
}  // namespace hvd
