// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/node/fabric.h"
#include "launcher/node/matching.h"
#include "launcher/node/read_node.h"
#include "written_sysfs.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A machine of topologies/, and what its ranks get, one a GPU on the whole node.
struct Machine {
  std::string name;
  int cores;
  std::vector<int> gpu_numas;
  std::string allowed;            ///< CPUs of the job; empty: all.
  std::vector<std::string> cpus;  ///< By rank.
  std::vector<std::string> nics;  ///< By rank; empty: the node has none in this form.
  FabricKind fabric;
};

void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }

std::vector<Machine> machines() {
  const std::string without_first_cores =
      "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63";  // LUMI's and Frontier's low-noise mode
  const std::vector<std::string> gcd_cpus{"49-55", "57-63", "17-23", "25-31",
                                          "1-7",   "9-15",  "33-39", "41-47"};
  const std::vector<std::string> gcd_nics{"hsn0", "hsn0", "hsn1", "hsn1",
                                          "hsn2", "hsn2", "hsn3", "hsn3"};
  return {
      {"jean-zay-v100-quad",
       40,
       {0, 0, 1, 1},
       "",
       {"0-9,40-49", "10-19,50-59", "20-29,60-69", "30-39,70-79"},
       {"ib0", "ib1", "ib2", "ib3"},
       FabricKind::kOmniPath},
      {"jean-zay-v100-octo",
       24,
       {0, 0, 0, 0, 1, 1, 1, 1},
       "0-23",
       {"0-2", "3-5", "6-8", "9-11", "12-14", "15-17", "18-20", "21-23"},
       {"ib0", "ib0", "ib1", "ib1", "ib2", "ib2", "ib3", "ib3"},
       FabricKind::kOmniPath},
      {"jean-zay-a100-octo",
       64,
       {0, 0, 0, 0, 1, 1, 1, 1},
       "0-63",
       {"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63"},
       {"ib0", "ib0", "ib1", "ib1", "ib2", "ib2", "ib3", "ib3"},
       FabricKind::kOmniPath},
      {"jean-zay-h100-quad",
       96,
       {0, 0, 1, 1},
       "0-95",
       {"0-23", "24-47", "48-71", "72-95"},
       {"ib0", "ib1", "ib2", "ib3"},
       FabricKind::kInfiniBand},
      {"piz-daint-xc50", 12, {0}, "", {"0-23"}, {}, FabricKind::kNone},
      {"alps-gh200",
       288,
       {0, 1, 2, 3},
       "",
       {"0-71", "72-143", "144-215", "216-287"},
       {"hsn0", "hsn1", "hsn2", "hsn3"},
       FabricKind::kSlingshot11},
      {"lumi-g",
       64,
       {3, 3, 1, 1, 0, 0, 2, 2},
       without_first_cores,
       gcd_cpus,
       gcd_nics,
       FabricKind::kSlingshot11},
      {"frontier",
       64,
       {3, 3, 1, 1, 0, 0, 2, 2},
       without_first_cores,
       gcd_cpus,
       gcd_nics,
       FabricKind::kSlingshot11},
      {"perlmutter",
       64,
       {3, 2, 1, 0},
       "",
       {"48-63,112-127", "32-47,96-111", "16-31,80-95", "0-15,64-79"},
       {"hsn3", "hsn2", "hsn1", "hsn0"},
       FabricKind::kSlingshot11},
      {"leonardo",
       32,
       {0, 0, 1, 1},
       "",
       {"0-7", "8-15", "16-23", "24-31"},
       {"ib0", "ib1", "ib2", "ib3"},
       FabricKind::kInfiniBand},
      {"juwels-booster",
       48,
       {3, 1, 7, 5},
       "0-47",
       {"12-23", "0-11", "36-47", "24-35"},
       {"ib0", "ib1", "ib2", "ib3"},
       FabricKind::kInfiniBand},
      // Two GPUs at each of four NUMA nodes: one of each pair has the cores of a neighbour node.
      {"dgx-a100",
       128,
       {3, 3, 1, 1, 7, 7, 5, 5},
       "0-127",
       {"0-15", "48-63", "16-31", "32-47", "64-79", "112-127", "80-95", "96-111"},
       {"ib0", "ib1", "ib2", "ib3", "ib6", "ib7", "ib8", "ib9"},
       FabricKind::kInfiniBand},
      {"dgx-h100",
       112,
       {0, 0, 0, 0, 1, 1, 1, 1},
       "0-111",
       {"0-13", "14-27", "28-41", "42-55", "56-69", "70-83", "84-97", "98-111"},
       {"ib0", "ib1", "ib2", "ib3", "ib4", "ib5", "ib6", "ib7"},
       FabricKind::kInfiniBand},
      {"laptop", 4, {}, "", {"0-7"}, {"wlan0"}, FabricKind::kEthernet},
  };
}

class Machines : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    auto node = read_node_xml(HVD_TOPOLOGY_DIR "/" + GetParam().name + ".xml");
    if (node.status().code() == Code::kUnsupported) GTEST_SKIP() << node.status().message();
    ASSERT_TRUE(node.is_ok()) << node.status().message();
    node_ = std::move(node).value();
  }

  MatchRequest one_rank_a_gpu() const {
    MatchRequest request;
    request.local_size = static_cast<int>(std::max<std::size_t>(1, node_.gpus.size()));
    request.gpus.resize(node_.gpus.size());
    std::iota(request.gpus.begin(), request.gpus.end(), 0);
    request.allowed = parse_cpu_set(GetParam().allowed).value();
    request.nics = detect_fabric(node_.nics).nics;
    return request;
  }

  NodeTopology node_;
};

TEST_P(Machines, ReadsItsForm) {
  EXPECT_EQ(static_cast<int>(node_.cores.size()), GetParam().cores);
  std::vector<int> numas;
  for (const NodeGpu& gpu : node_.gpus) numas.push_back(gpu.numa);
  EXPECT_EQ(numas, GetParam().gpu_numas);
  EXPECT_EQ(fabric_name(detect_fabric(node_.nics).kind), fabric_name(GetParam().fabric));
}

TEST_P(Machines, GivesEachRankItsOwn) {
  const Matching matching = match_node(node_, one_rank_a_gpu());
  std::vector<std::string> cpus;
  std::vector<std::string> nics;
  for (std::size_t rank = 0; rank < matching.ranks.size(); ++rank) {
    const MatchedRank& matched = matching.ranks[rank];
    cpus.push_back(format_cpu_set(matched.cpus));
    if (matched.nic >= 0) nics.push_back(node_.nics[static_cast<std::size_t>(matched.nic)].name);
    EXPECT_FALSE(matched.is_far);
    EXPECT_EQ(matched.gpu, node_.gpus.empty() ? -1 : static_cast<int>(rank));
  }
  EXPECT_THAT(cpus, ElementsAreArray(GetParam().cpus));
  EXPECT_THAT(nics, ElementsAreArray(GetParam().nics));
  EXPECT_THAT(matching.idle_entries, IsEmpty());
}

TEST_P(Machines, ReadsTheSameFromSysfs) {
  const WrittenSysfs sysfs;
  sysfs.node(node_);
  const NodeTopology again = read_node(sysfs.root(), {true, true, true});
  ASSERT_EQ(again.cores.size(), node_.cores.size());
  for (std::size_t i = 0; i < again.cores.size(); ++i) {
    EXPECT_EQ(again.cores[i].cpus, node_.cores[i].cpus);
    EXPECT_EQ(again.cores[i].package, node_.cores[i].package);
    EXPECT_EQ(again.cores[i].numa, node_.cores[i].numa);
  }
  ASSERT_EQ(again.numas.size(), node_.numas.size());
  for (std::size_t i = 0; i < again.numas.size(); ++i) {
    EXPECT_EQ(again.numas[i].cpus, node_.numas[i].cpus);
    EXPECT_EQ(again.numas[i].memory_bytes, node_.numas[i].memory_bytes);
  }
  ASSERT_EQ(again.gpus.size(), node_.gpus.size());
  for (std::size_t i = 0; i < again.gpus.size(); ++i) {
    EXPECT_EQ(again.gpus[i].bus_id, node_.gpus[i].bus_id);
    EXPECT_EQ(again.gpus[i].model, node_.gpus[i].model);
    EXPECT_EQ(again.gpus[i].near_cpus, node_.gpus[i].near_cpus);
  }
  ASSERT_EQ(again.nics.size(), node_.nics.size());
  for (std::size_t i = 0; i < again.nics.size(); ++i) {
    EXPECT_EQ(again.nics[i].name, node_.nics[i].name);
    EXPECT_EQ(again.nics[i].device, node_.nics[i].device);
    EXPECT_EQ(again.nics[i].numa, node_.nics[i].numa);
  }
  EXPECT_EQ(again.gpu_to_nic, node_.gpu_to_nic);
}

INSTANTIATE_TEST_SUITE_P(Topologies, Machines, ::testing::ValuesIn(machines()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

Result<NodeTopology> machine(const std::string& name) {
  return read_node_xml(HVD_TOPOLOGY_DIR "/" + name + ".xml");
}

/// The GPUs that the ranks get where Slurm gave them these masks.
std::vector<int> gpus_for_masks(const std::string& name, const std::vector<std::string>& masks) {
  const auto node = machine(name);
  if (!node.is_ok()) return {};
  MatchRequest request;
  request.local_size = static_cast<int>(masks.size());
  request.gpus.resize(node.value().gpus.size());
  std::iota(request.gpus.begin(), request.gpus.end(), 0);
  for (const std::string& mask : masks) request.rank_masks.push_back(parse_cpu_set(mask).value());
  std::vector<int> gpus;
  for (const MatchedRank& rank : match_node(node.value(), request).ranks) gpus.push_back(rank.gpu);
  return gpus;
}

// The user guide: of `srun -n8 -c7 --gpu-bind=closest` rank 0 has GPU 4.
TEST(MachineMasks, FrontiersRanksGetTheGpusOfTheGuide) {
  if (!machine("frontier").is_ok()) GTEST_SKIP() << "built without hwloc";
  EXPECT_THAT(gpus_for_masks("frontier",
                             {"1-7", "9-15", "17-23", "25-31", "33-39", "41-47", "49-55", "57-63"}),
              ElementsAre(4, 5, 2, 3, 6, 7, 0, 1));
}

// NERSC: CUDA_VISIBLE_DEVICES = 3 - SLURM_LOCALID.
TEST(MachineMasks, PerlmuttersGpusAreReversed) {
  if (!machine("perlmutter").is_ok()) GTEST_SKIP() << "built without hwloc";
  EXPECT_THAT(
      gpus_for_masks("perlmutter", {"0-15,64-79", "16-31,80-95", "32-47,96-111", "48-63,112-127"}),
      ElementsAre(3, 2, 1, 0));
}

// LUMI: --cpu-bind=map_cpu:49,57,17,25,1,9,33,41 with GPU r for rank r.
TEST(MachineMasks, LumisMapGivesRankRItsGpuR) {
  if (!machine("lumi-g").is_ok()) GTEST_SKIP() << "built without hwloc";
  EXPECT_THAT(gpus_for_masks("lumi-g", {"49", "57", "17", "25", "1", "9", "33", "41"}),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(NodeXml, SaysWhatIsNoSuchFile) {
  const auto none = read_node_xml("/nonexistent.xml");
  EXPECT_FALSE(none.is_ok());
  EXPECT_NE(none.status().message().find("/nonexistent.xml"), std::string::npos);
}

std::string laptop_xml() {
  std::ostringstream text;
  text << std::ifstream(HVD_TOPOLOGY_DIR "/laptop.xml").rdbuf();
  return text.str();
}

Result<NodeTopology> written_xml(const std::string& text) {
  const WrittenSysfs folder;
  folder.file("/node.xml", text);
  return read_node_xml(folder.root() + "/node.xml");
}

TEST(NodeXml, RefusesAFileThatEndsEarly) {
  if (!machine("laptop").is_ok()) GTEST_SKIP() << "built without hwloc";
  const std::string text = laptop_xml();
  ASSERT_TRUE(written_xml(text).is_ok());
  for (const std::size_t part : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    const auto node = written_xml(text.substr(0, text.size() * part / 10));
    ASSERT_FALSE(node.is_ok()) << part;
    EXPECT_THAT(node.status().message(), HasSubstr("node.xml' cannot be read")) << part;
  }
}

// hwloc 2.9 crashes where an object has cpuset and no complete_cpuset.
TEST(NodeXml, SurvivesObjectsWithoutAnAttribute) {
  if (!machine("laptop").is_ok()) GTEST_SKIP() << "built without hwloc";
  for (const std::string name :
       {"complete_cpuset", "cpuset", "complete_nodeset", "nodeset", "os_index", "pci_busid", "kind",
        "type", "gp_index", "osdev_type", "bridge_type", "bridge_pci", "local_memory"}) {
    const std::regex attribute(" " + name + "=\"[^\"]*\"");
    const auto node = written_xml(std::regex_replace(laptop_xml(), attribute, ""));
    if (node.is_ok()) continue;
    EXPECT_THAT(node.status().message(), HasSubstr("cannot be read as a node")) << name;
  }
}

}  // namespace
}  // namespace hvd
