// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/binding_report.h"

#include <algorithm>
#include <map>
#include <vector>

#include "launcher/plan/binding.h"

namespace hvd {
namespace {

std::string draw_core(const NodeCore& core, const CpuSet& cpus) {
  std::string text;
  for (const int cpu : core.cpus) {
    text += std::binary_search(cpus.begin(), cpus.end(), cpu) ? 'B' : '.';
  }
  return text;
}

std::string name_gpu(const RankPlacement& rank) {
  if (!rank.gpu) return "no GPU";
  std::string text = format_text("GPU {}", *rank.gpu);
  if (!rank.gpu_id.empty()) text += format_text(" ({})", rank.gpu_id);
  return text;
}

}  // namespace

std::string draw_cpus(const NodeTopology& topology, const CpuSet& cpus) {
  // By socket, then NUMA node, in ascending number; the cores of one in the topology's order.
  std::map<int, std::map<int, std::string>> sockets;
  for (const NodeCore& core : topology.cores) {
    std::string& numa = sockets[core.package][core.numa];
    if (!numa.empty()) numa += "/";
    numa += draw_core(core, cpus);
  }
  std::string text;
  for (const auto& [package, numas] : sockets) {
    text += "[";
    for (const auto& [id, cores] : numas) {
      if (text.back() != '[') text += "|";
      text += cores;
    }
    text += "]";
  }
  return text;
}

std::string report_binding(const NodeTopology& topology, const RankPlacement& rank) {
  std::string text = format_text("rank {} on {}: {}, ", rank.rank, rank.host, name_gpu(rank));
  if (!rank.nic.empty()) text += format_text("NIC {}, ", rank.nic);
  const bool one_a_core =
      count_cores(topology, rank.usable_cpus) == static_cast<int>(rank.usable_cpus.size());
  text += format_text("{} {}", one_a_core ? "cores" : "CPUs",
                      rank.usable_cpus.empty() ? "unknown" : format_cpu_set(rank.usable_cpus));
  if (!rank.is_bound) text += " (not bound)";
  if (!rank.memory_numas.empty()) {
    text += format_text(", memory of NUMA node{} {}", rank.memory_numas.size() == 1 ? "" : "s",
                        format_cpu_set(rank.memory_numas));
  }
  return text + " " + draw_cpus(topology, rank.usable_cpus);
}

}  // namespace hvd
