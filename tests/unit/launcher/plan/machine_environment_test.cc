// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/machine_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/plan/machine_facts.h"
#include "launcher/site/fabric_variables.h"

namespace hvd {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

NodeNic port(const std::string& name, const std::string& device, const std::string& driver,
             const std::string& link, double gigabits) {
  NodeNic nic;
  nic.name = name;
  nic.device = device;
  nic.driver = driver;
  nic.link = link;
  nic.gigabits = gigabits;
  return nic;
}

SiteFacts facts_of(const std::vector<NodeNic>& nics, int nodes) {
  SiteFacts facts;
  facts.nodes = nodes;
  facts.gpus_per_node = 4;
  facts.plugin_found = true;
  facts.gpu_vendor = "nvidia";
  set_fabric(nics, facts);
  return facts;
}

std::map<std::string, std::string> values(const SiteFacts& facts, bool assume = false) {
  SiteConfig site;
  site.id = "x";
  std::map<std::string, std::string> found;
  const MachineEnvironment machine =
      plan_machine(site, fabric_variables(facts.fabric.value_or("")), facts, assume);
  for (const PlannedVariable& variable : machine.offered) {
    EXPECT_TRUE(found.emplace(variable.name, variable.value).second) << variable.name;
    EXPECT_EQ(variable.provenance.is_assumed() && !assume, false) << variable.name;
    EXPECT_EQ(variable.origin, "fabric " + *facts.fabric);
  }
  return found;
}

TEST(Fabrics, TheEmbeddedFileIsRightAndHasEveryKind) {
  const Status status = check_fabrics();
  EXPECT_TRUE(status.is_ok()) << status.message();
  std::vector<std::string> kinds;
  for (const FabricKind kind :
       {FabricKind::kInfiniBand, FabricKind::kRoce, FabricKind::kOmniPath, FabricKind::kAries,
        FabricKind::kSlingshot10, FabricKind::kSlingshot11, FabricKind::kEfa,
        FabricKind::kEthernet}) {
    kinds.push_back(fabric_key(kind));
  }
  EXPECT_THAT(fabric_kinds(), testing::UnorderedElementsAreArray(kinds));
  EXPECT_EQ(fabric_key(FabricKind::kNone), "");
}

TEST(MachineEnvironment, NamesTheInterfacesOfSlingshot) {
  std::vector<NodeNic> nics;
  for (const std::string i : {"0", "1", "2", "3"}) {
    nics.push_back(port("hsn" + i, "cxi" + i, "cxi_core", "", 200));
  }
  nics.push_back(port("eth0", "", "igb", "Ethernet", 1));
  SiteFacts facts = facts_of(nics, 2);
  EXPECT_EQ(values(facts)["NCCL_SOCKET_IFNAME"], "hsn0,hsn1,hsn2,hsn3");
  EXPECT_EQ(values(facts)["GLOO_SOCKET_IFNAME"], "hsn0");
  EXPECT_EQ(values(facts)["NCCL_NET"], "AWS Libfabric");
  EXPECT_EQ(values(facts).count("HSA_FORCE_FINE_GRAIN_PCIE"), 0U);
  EXPECT_EQ(values(facts).count("MPICH_OFI_NIC_POLICY"), 0U);
  EXPECT_EQ(values(facts, true)["MPICH_OFI_NIC_POLICY"], "GPU");
  facts.plugin_found = false;
  EXPECT_EQ(values(facts).count("NCCL_NET"), 0U);
  EXPECT_THAT(values(facts_of(nics, 1)), IsEmpty());
}

TEST(MachineEnvironment, NamesTheDevicesWhereOthersAreNotOfTheFabric) {
  std::vector<NodeNic> nics{port("ib0", "mlx5_0", "mlx5_core", "InfiniBand", 200),
                            port("ib1", "mlx5_1", "mlx5_core", "InfiniBand", 200)};
  EXPECT_EQ(values(facts_of(nics, 2)).count("NCCL_IB_HCA"), 0U);
  nics.push_back(port("eth0", "mlx5_2", "mlx5_core", "Ethernet", 25));
  EXPECT_EQ(values(facts_of(nics, 2))["NCCL_IB_HCA"], "=mlx5_0,mlx5_1");
  EXPECT_EQ(values(facts_of(nics, 2))["UCX_NET_DEVICES"], "mlx5_0:1,mlx5_1:1");
}

TEST(MachineEnvironment, SaysWhyAVariableIsNotSet) {
  SiteFacts facts;
  facts.nodes = 2;
  facts.gpus_per_node = 1;
  facts.fabric = "slingshot-11";  // typed, no port is here
  SiteConfig site;
  const MachineEnvironment machine =
      plan_machine(site, fabric_variables("slingshot-11"), facts, false);
  std::map<std::string, std::string> why;
  for (const UnsetVariable& variable : machine.unset) why[variable.name] = variable.why_not;
  EXPECT_THAT(machine.offered, IsEmpty());
  EXPECT_EQ(why["NCCL_SOCKET_IFNAME"], "no port of the fabric is known here");
  EXPECT_EQ(why["NCCL_NET"], "plugin_found: it is not known whether a libfabric plugin is there");
  EXPECT_EQ(why["MPICH_OFI_NIC_POLICY"], "assumed, not documented: --assume sets it");
}

TEST(MachineEnvironment, TakesTheFirstEntryOfANameThatHolds) {
  SiteConfig site;
  site.id = "x";
  const Provenance page{"page", "2026", "documented"};
  site.env = {{"NCCL_NET", "Socket", "nodes=1", "w", page},
              {"NCCL_NET", "OFI", "nodes>1", "w", page},
              {"NCCL_NET", "IB", "always", "w", page}};
  SiteFacts facts;
  const auto value = [&] { return plan_machine(site, {}, facts, false).offered.at(0).value; };
  EXPECT_EQ(value(), "Socket");
  facts.nodes = 2;
  EXPECT_EQ(value(), "OFI");
  EXPECT_EQ(plan_machine(site, {}, facts, false).unset.size(), 2U);
}

TEST(MachineEnvironment, LeavesOutInterfacesOfTheSiteThatThisNodeLacks) {
  const Provenance page{"page", "2026", "documented"};
  SiteConfig site;
  site.id = "x";
  site.bootstrap_if = "hvd-absent0";
  site.provenance = page;
  SiteConfig by_partition;
  by_partition.id = "x";
  by_partition.partitions.resize(1);
  by_partition.partitions[0].bootstrap_if = "hvd-absent0";
  by_partition.partitions[0].provenance = page;
  for (const SiteConfig& one : {site, by_partition}) {
    SiteFacts facts;
    facts.nodes = 2;
    const MachineEnvironment machine = read_machine(one, Allocation(), facts, false);
    std::map<std::string, std::string> why;
    for (const UnsetVariable& variable : machine.unset) why[variable.name] = variable.why_not;
    EXPECT_EQ(why["HVD_BOOTSTRAP_INTERFACE"], "no such interface of this node is up");
    for (const PlannedVariable& variable : machine.offered) {
      EXPECT_NE(variable.value, "hvd-absent0") << variable.name;
    }
  }
  // A typed fabric: the nodes that are meant are not like this one.
  SiteFacts facts;
  facts.nodes = 2;
  facts.fabric = "ethernet";
  const MachineEnvironment machine = read_machine(site, Allocation(), facts, false);
  ASSERT_FALSE(machine.offered.empty());
  EXPECT_EQ(machine.offered[0].value, "hvd-absent0");
}

TEST(MachineFacts, ReadsWhatIsAskedAndNoMore) {
  const std::vector<SiteVariable> variables{{"A", "1", "nodes>1 and container", "w", {}},
                                            {"B", "1", "partition=gpu", "w", {}}};
  EXPECT_THAT(asked_facts(variables),
              UnorderedElementsAre(Fact::kNodes, Fact::kContainer, Fact::kPartition));
  Environment environment;
  environment.set("APPTAINER_CONTAINER", "image.sif");
  environment.set("SLURM_JOB_PARTITION", "gpu");
  SiteFacts facts;
  read_facts(asked_facts(variables), environment, facts);
  EXPECT_EQ(facts.container, true);
  EXPECT_EQ(facts.partition, "gpu");
  EXPECT_FALSE(facts.nccl || facts.plugin_found || facts.gpu_vendor);
}

TEST(MachineFacts, ReadsBothFormsOfTheVersionOfNccl) {
  EXPECT_EQ(nccl_version(22703), "2.27.3");
  EXPECT_EQ(nccl_version(20904), "2.9.4");
  EXPECT_EQ(nccl_version(2804), "2.8.4");
  EXPECT_EQ(nccl_version(30105), "3.1.5");
}

TEST(MachineFacts, FindsThePluginOnTheLibraryPath) {
  std::string folder = testing::TempDir() + "/plugin.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(find_plugin(folder, ""), "");
  std::ofstream(folder + "/librccl-net.so") << "x";
  std::ofstream(folder + "/libnccl-net-mine.so") << "x";
  EXPECT_EQ(find_plugin(":/nowhere:" + folder + "::", ""), folder + "/librccl-net.so");
  EXPECT_EQ(find_plugin(folder, "mine"), folder + "/libnccl-net-mine.so");
  EXPECT_EQ(find_plugin("", folder + "/librccl-net.so"), folder + "/librccl-net.so");
  EXPECT_EQ(find_plugin(folder, folder + "/absent.so"), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hvd
