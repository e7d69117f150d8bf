// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/node_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "../golden.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

/// Two packages of two cores, a GPU and a NIC at each; the GPUs are the wrong way round.
NodeTopology small_node() {
  NodeTopology node;
  node.origin = "n<1>";
  node.cores = {{{0, 4}, 0, 0}, {{1, 5}, 0, 0}, {{2, 6}, 1, 1}, {{3, 7}, 1, 1}};
  node.numas = {{0, {0, 1, 4, 5}, 64ULL << 30U}, {1, {2, 3, 6, 7}, 64ULL << 30U}};
  node.gpus.resize(2);
  node.gpus[0] = {0, "0000:07:00.0", GpuVendor::kNvidia, "NVIDIA H100", "GPU-aa", {}, 1, {}};
  node.gpus[1] = {1, "0000:47:00.0", GpuVendor::kNvidia, "NVIDIA H100", "GPU-bb", {}, 0, {}};
  node.nics = {{"ib0", "mlx5_0", "0000:05:00.0", "mlx5_core", 1, "InfiniBand", 400, true, 1},
               {"ib1", "mlx5_1", "0000:45:00.0", "mlx5_core", 1, "InfiniBand", 400, true, 0}};
  node.gpu_to_nic = {{PciDistance::kSwitch, PciDistance::kSystem},
                     {PciDistance::kSystem, PciDistance::kSwitch}};
  return node;
}

NodeMap map_of(NodeTopology node, CpuSet mask, Variables variables, std::optional<int> ranks) {
  return make_node_map(std::move(node), std::move(mask), Environment(std::move(variables)), ranks)
      .value();
}

TEST(NodeMap, DrawsTheNode) {
  const NodeMap map = map_of(small_node(), {}, {}, std::nullopt);
  expect_golden(HVD_GOLDEN_DIR "/topo-text.golden", node_map_text(map));
  expect_golden(HVD_GOLDEN_DIR "/topo-json.golden", node_map_json(map));
  expect_golden(HVD_GOLDEN_DIR "/topo-svg.golden", node_map_svg(map));
}

TEST(NodeMap, MarksWhatTheProcessMayUse) {
  const Variables list{{"CUDA_VISIBLE_DEVICES", "1"}};
  const NodeMap map = map_of(small_node(), {0, 2, 3, 4, 6, 7}, list, std::nullopt);
  const std::string text = node_map_text(map);
  EXPECT_THAT(text, HasSubstr("visible GPUs: 1 (CUDA_VISIBLE_DEVICES)"));
  EXPECT_THAT(text, HasSubstr("CPUs of this process: 0,2-4,6-7"));
  EXPECT_THAT(text, HasSubstr("cores 0-"));
  EXPECT_THAT(node_map_svg(map), HasSubstr("stroke-dasharray"));
}

TEST(NodeMap, SaysWhatDoesNotFit) {
  EXPECT_THAT(node_map_text(map_of(small_node(), {}, {}, 1)),
              HasSubstr("note: GPU entry 1 stays idle"));
  EXPECT_THAT(node_map_text(map_of(small_node(), {}, {}, 3)),
              HasSubstr("note: local ranks 0,2 share GPU entry 0"));
  EXPECT_THAT(
      make_node_map(small_node(), {}, Environment(Variables{{"CUDA_VISIBLE_DEVICES", "2"}}), 1)
          .status()
          .message(),
      HasSubstr("no GPU of this node is '2'"));
}

TEST(NodeMap, ANodeWithoutGpusIsDrawnToo) {
  NodeTopology laptop;
  laptop.origin = "laptop";
  laptop.cores = {{{0}, 0, 0}, {{1}, 0, 0}};
  laptop.numas = {{0, {0, 1}, 0}};
  const std::string text = node_map_text(map_of(laptop, {0, 1}, {}, std::nullopt));
  EXPECT_THAT(text, HasSubstr("0 GPUs"));
  EXPECT_THAT(text, HasSubstr("cores .."));
  EXPECT_THAT(text, Not(HasSubstr("rank")));
  EXPECT_THAT(node_map_text(map_of(laptop, {0, 1}, {}, 2)), HasSubstr("cores 01"));
}

TEST(NodeMap, DrawsADeviceOfNoKnownNumaNodeInTheOnlyOne) {
  NodeTopology one;
  one.numas = {{8, {0, 1}, 0}};
  EXPECT_EQ(drawn_numa(one, 8), 8);
  EXPECT_EQ(drawn_numa(one, -1), 8);
  EXPECT_EQ(drawn_numa(small_node(), 1), 1);
  EXPECT_EQ(drawn_numa(small_node(), -1), -1);
}

TEST(NodeMap, EscapesWhatTheMachineSays) {
  NodeTopology node = small_node();
  node.gpus[0].model = "A & B \"<x>\x01";
  const std::string svg = node_map_svg(map_of(node, {}, {}, std::nullopt));
  EXPECT_THAT(svg, HasSubstr("A &amp; B &quot;&lt;x> "));
  node.gpus[0].model = "\xff";
  EXPECT_THAT(node_map_json(map_of(node, {}, {}, std::nullopt)), HasSubstr("\"model\""));
}

}  // namespace
}  // namespace hvd
