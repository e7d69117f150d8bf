// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/binding_report.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../golden.h"
#include "launcher/node/read_node.h"

namespace hvd {
namespace {

TEST(BindingReport, DrawsTheNodeAsMpirunDoes) {
  NodeTopology topology;
  topology.cores = {{{0, 8}, 0, 0}, {{1, 9}, 0, 0}, {{2, 10}, 0, 1}, {{3}, 1, 2}};
  EXPECT_EQ(draw_cpus(topology, {0, 8, 9}), "[BB/.B|..][.]");
  EXPECT_EQ(draw_cpus(topology, {3}), "[../..|..][B]");
  EXPECT_EQ(draw_cpus(topology, {}), "[../..|..][.]");
  EXPECT_EQ(draw_cpus({}, {0}), "");
}

TEST(BindingReport, SaysWhatIsNotThere) {
  RankPlacement rank;
  rank.rank = 2;
  rank.host = "box";
  rank.usable_cpus = {0, 1};
  NodeTopology topology;
  topology.cores = {{{0, 1}, 0, 0}};
  EXPECT_EQ(report_binding(topology, rank), "rank 2 on box: no GPU, CPUs 0-1 (not bound) [BB]");
  rank.usable_cpus.clear();
  EXPECT_EQ(report_binding(topology, rank),
            "rank 2 on box: no GPU, cores unknown (not bound) [..]");
}

/// One rank per GPU of the machine, in its own order, as `hvdrun --report-bindings` there says it.
std::string report_of(const std::string& machine, const std::string& allowed) {
  auto node = read_node_xml(HVD_TOPOLOGY_DIR "/" + machine + ".xml");
  if (!node.is_ok()) return "";
  Allocation allocation;
  allocation.host = machine;
  allocation.hosts = {machine};
  allocation.mask = parse_cpu_set(allowed).value();
  allocation.node = std::move(node).value();
  allocation.gpus_on_machine = static_cast<int>(allocation.node.gpus.size());
  RunOptions options;
  options.bind.policy = BindPolicy::kCores;
  const auto placed = place(options, allocation);
  if (!placed.is_ok()) return placed.status().message() + "\n";
  std::string text;
  for (const std::string& warning : placed.value().warnings) text += "warning: " + warning + "\n";
  for (const RankPlacement& rank : placed.value().ranks) {
    text += report_binding(placed.value().topology, rank) + "\n";
  }
  return text;
}

TEST(BindingReport, OfRealMachines) {
  if (read_node_xml(HVD_TOPOLOGY_DIR "/laptop.xml").status().code() == Code::kUnsupported) {
    GTEST_SKIP() << "built without hwloc";
  }
  std::string text = report_of("jean-zay-v100-quad", "0-39");
  text += report_of("jean-zay-a100-octo", "0-63");
  text += report_of("perlmutter", "0-127");
  text += report_of("lumi-g", "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63");
  text += report_of("piz-daint-xc50", "0-23");
  // Half of the node: two GPUs are left without a core near them.
  text += report_of("jean-zay-v100-quad", "0-19");
  expect_golden(HVD_GOLDEN_DIR "/report-bindings.golden", text);
}

TEST(BindingReport, WholeNodesHaveNoRankFarFromItsGpu) {
  if (read_node_xml(HVD_TOPOLOGY_DIR "/laptop.xml").status().code() == Code::kUnsupported) {
    GTEST_SKIP() << "built without hwloc";
  }
  const std::vector<std::pair<std::string, std::string>> machines{
      {"jean-zay-v100-quad", "0-39"},
      {"jean-zay-v100-octo", "0-23"},
      {"jean-zay-a100-octo", "0-63"},
      {"jean-zay-h100-quad", "0-95"},
      {"piz-daint-xc50", "0-11"},
      {"alps-gh200", "0-287"},
      {"lumi-g", "0-63"},
      {"frontier", "0-63"},
      {"perlmutter", "0-63"},
      {"leonardo", "0-31"},
      {"juwels-booster", "0-47"},
      {"dgx-a100", "0-127"},
      {"dgx-h100", "0-111"},
  };
  for (const auto& [machine, cpus] : machines) {
    const std::string report = report_of(machine, cpus);
    EXPECT_EQ(report.find("warning"), std::string::npos) << report;
    EXPECT_NE(report.find("rank 0"), std::string::npos) << machine;
  }
}

}  // namespace
}  // namespace hvd
