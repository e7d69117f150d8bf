// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/node_map.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/node/gpu_places.h"

namespace hvd {

Result<NodeMap> make_node_map(NodeTopology node, CpuSet mask, const Environment& environment,
                              std::optional<int> ranks) {
  NodeMap map;
  map.fabric = detect_fabric(node.nics);
  HVD_TRY_ASSIGN(VisibleGpus visible,
                 visible_gpus(environment, static_cast<int>(node.gpus.size())));
  MatchRequest request;
  HVD_TRY_ASSIGN(request.gpus, locate_gpus(node, visible, environment));
  request.local_size = ranks.value_or(static_cast<int>(request.gpus.size()));
  request.allowed = mask;
  request.nics = map.fabric.nics;
  map.matching = match_node(node, request);
  map.list_variable = visible.variable;
  for (GpuEntry& entry : visible.entries) map.list.push_back(std::move(entry.text));
  map.rank_of_core.assign(node.cores.size(), -1);
  for (std::size_t rank = 0; rank < map.matching.ranks.size(); ++rank) {
    for (const int core : map.matching.ranks[rank].cores) {
      map.rank_of_core[static_cast<std::size_t>(core)] = static_cast<int>(rank);
    }
  }
  map.node = std::move(node);
  map.mask = std::move(mask);
  return map;
}

int drawn_numa(const NodeTopology& node, int numa) {
  const auto found = std::find_if(node.numas.begin(), node.numas.end(),
                                  [&](const NodeNuma& each) { return each.id == numa; });
  if (found != node.numas.end()) return numa;
  return node.numas.size() == 1 ? node.numas.front().id : -1;
}

std::string memory_text(std::uint64_t bytes) {
  if (bytes == 0) return {};
  constexpr double kGib = 1024.0 * 1024 * 1024;
  return format_text("{:.0f} GiB", static_cast<double>(bytes) / kGib);
}

std::string gpu_text(const NodeGpu& gpu) {
  std::string text = format_text("GPU {} {}", gpu.index, gpu.bus_id);
  if (!gpu.model.empty()) text += " " + gpu.model;
  if (!gpu.mig_uuids.empty()) text += format_text(", {} MIG instances", gpu.mig_uuids.size());
  return text;
}

std::string nic_text(const NodeNic& nic) {
  std::string text = "NIC";
  if (!nic.name.empty()) text += " " + nic.name;
  if (!nic.device.empty()) text += format_text(" {}", nic.device);
  if (nic.port > 1) text += format_text(":{}", nic.port);
  if (nic.gigabits > 0) text += format_text(" {} Gb/s", nic.gigabits);
  if (!nic.is_up) text += " (down)";
  return text;
}

std::string_view distance_name(PciDistance distance) {
  switch (distance) {
    case PciDistance::kSwitch:
      return "switch";
    case PciDistance::kHostBridge:
      return "bridge";
    case PciDistance::kNuma:
      return "numa";
    case PciDistance::kSystem:
      return "system";
  }
  return "system";
}

}  // namespace hvd
