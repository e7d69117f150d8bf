// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/node/fabric.h"
#include "launcher/node/matching.h"
#include "launcher/node/node_topology.h"

namespace hvd {

/// A node and what each rank on it would use: all that `hvdrun topo` prints.
struct NodeMap {
  NodeTopology node;
  Fabric fabric;
  CpuSet mask;                    ///< CPUs that the job may use; empty: all.
  std::string list_variable;      ///< Where the visible list came from; empty: all GPUs.
  std::vector<std::string> list;  ///< Its entries.
  Matching matching;              ///< Of no rank where there is no GPU and no -np.
  std::vector<int> rank_of_core;  ///< By core; -1: no rank's, or of several.
};

/// Places `ranks` (default: one per visible GPU) on the node. kInvalidArgument: a visible list that
/// does not fit. Pure.
Result<NodeMap> make_node_map(NodeTopology node, CpuSet mask, const Environment& environment,
                              std::optional<int> ranks);

/// The NUMA node in whose box a device is drawn; -1: none is nearest.
int drawn_numa(const NodeTopology& node, int numa);

/// "96 GiB"; empty for 0.
std::string memory_text(std::uint64_t bytes);

/// "GPU 0 Tesla V100 0000:1a:00.0", "NIC ib0 hfi1_0 100 Gb/s".
std::string gpu_text(const NodeGpu& gpu);
std::string nic_text(const NodeNic& nic);

/// "switch", "bridge", "numa", "system": what two devices have in common.
std::string_view distance_name(PciDistance distance);

std::string node_map_text(const NodeMap& map);
std::string node_map_json(const NodeMap& map);
std::string node_map_svg(const NodeMap& map);

}  // namespace hvd
