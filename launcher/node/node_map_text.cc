// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/format.h"
#include "launcher/node/node_map.h"

namespace hvd {
namespace {

std::string counted(std::size_t count, std::string_view what) {
  return format_text("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool is_allowed(const NodeMap& map, const NodeCore& core) {
  if (map.mask.empty()) return true;
  return std::any_of(core.cpus.begin(), core.cpus.end(), [&](int cpu) {
    return std::binary_search(map.mask.begin(), map.mask.end(), cpu);
  });
}

/// One character for a core: its rank (0-9, a-z, then +), "." for none, "-" outside the mask.
char core_mark(const NodeMap& map, std::size_t core) {
  const int rank = map.rank_of_core[core];
  if (rank < 0) return is_allowed(map, map.node.cores[core]) ? '.' : '-';
  if (rank < 10) return static_cast<char>('0' + rank);
  return rank < 36 ? static_cast<char>('a' + rank - 10) : '+';
}

std::string header(const NodeMap& map) {
  std::set<int> packages;
  std::size_t cpus = 0;
  for (const NodeCore& core : map.node.cores) {
    packages.insert(core.package);
    cpus += core.cpus.size();
  }
  std::string text = format_text(
      "{}: {}, {}, {}, {}, {}\n", map.node.origin, counted(packages.size(), "package"),
      counted(map.node.numas.size(), "NUMA node"), counted(map.node.cores.size(), "core"),
      counted(cpus, "CPU"), counted(map.node.gpus.size(), "GPU"));
  text += format_text("fabric: {} ({})\n", fabric_name(map.fabric.kind), map.fabric.evidence);
  if (!map.list_variable.empty()) {
    std::string list;
    for (const std::string& entry : map.list) list += (list.empty() ? "" : ",") + entry;
    text += format_text("visible GPUs: {} ({})\n", list.empty() ? "none" : list, map.list_variable);
  }
  if (!map.mask.empty() && map.mask.size() < cpus) {
    text += format_text("CPUs of this process: {}\n", format_cpu_set(map.mask));
  }
  return text;
}

std::string devices_at(const NodeMap& map, int numa, std::string_view indent) {
  std::string text;
  for (const NodeGpu& gpu : map.node.gpus) {
    if (drawn_numa(map.node, gpu.numa) == numa)
      text += format_text("{}{}\n", indent, gpu_text(gpu));
  }
  for (const NodeNic& nic : map.node.nics) {
    if (drawn_numa(map.node, nic.numa) == numa)
      text += format_text("{}{}\n", indent, nic_text(nic));
  }
  return text;
}

std::string numa_text(const NodeMap& map, const NodeNuma& numa, int package) {
  std::string marks;
  CpuSet cpus;
  for (std::size_t core = 0; core < map.node.cores.size(); ++core) {
    const NodeCore& each = map.node.cores[core];
    if (each.numa != numa.id || each.package != package) continue;
    marks += core_mark(map, core);
    cpus.insert(cpus.end(), each.cpus.begin(), each.cpus.end());
  }
  if (marks.empty()) return {};
  std::sort(cpus.begin(), cpus.end());
  const std::string memory = memory_text(numa.memory_bytes);
  std::string text =
      format_text("  NUMA node {}{}{}\n", numa.id, memory.empty() ? "" : ", ", memory);
  constexpr std::size_t kWidth = 72;
  for (std::size_t at = 0; at < marks.size(); at += kWidth) {
    text += format_text("    {} {}\n", at == 0 ? "cores" : "     ", marks.substr(at, kWidth));
  }
  text += format_text("    CPUs  {}\n", format_cpu_set(cpus));
  return text + devices_at(map, numa.id, "    ");
}

std::string drawing(const NodeMap& map) {
  std::string text;
  std::set<int> done;
  for (const NodeCore& core : map.node.cores) {
    if (!done.insert(core.package).second) continue;
    text += format_text("\npackage {}\n", core.package);
    for (const NodeNuma& numa : map.node.numas) text += numa_text(map, numa, core.package);
  }
  const std::string elsewhere = devices_at(map, -1, "  ");
  if (!elsewhere.empty()) text += "\nnear no NUMA node, as the firmware says\n" + elsewhere;
  return text;
}

std::string distances(const NodeMap& map) {
  if (map.node.gpus.empty() || map.fabric.nics.empty()) return {};
  std::string text = "\nfrom GPU to NIC, what both are behind (switch is nearest)\n        ";
  const auto name = [&](int nic) {
    const NodeNic& each = map.node.nics[static_cast<std::size_t>(nic)];
    return each.name.empty() ? each.device : each.name;
  };
  for (const int nic : map.fabric.nics) text += format_text("{:>8}", name(nic));
  text += "\n";
  for (std::size_t gpu = 0; gpu < map.node.gpus.size(); ++gpu) {
    text += format_text("  GPU {:<2}", gpu);
    for (const int nic : map.fabric.nics) {
      text += format_text("{:>8}",
                          distance_name(map.node.gpu_to_nic[gpu][static_cast<std::size_t>(nic)]));
    }
    text += "\n";
  }
  return text;
}

std::string numbers(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text.empty() ? "-" : text;
}

std::string ranks(const NodeMap& map) {
  if (map.matching.ranks.empty()) return {};
  std::string text = "\nrank  GPU   NUMA  NIC       CPUs\n";
  for (std::size_t rank = 0; rank < map.matching.ranks.size(); ++rank) {
    const MatchedRank& each = map.matching.ranks[rank];
    std::string gpu = each.gpu >= 0 ? std::to_string(each.gpu) : "-";
    if (each.gpu < 0 && each.entry >= 0) gpu = map.list[static_cast<std::size_t>(each.entry)];
    std::string nic = "-";
    if (each.nic >= 0) {
      const NodeNic& port = map.node.nics[static_cast<std::size_t>(each.nic)];
      nic = port.device.empty() ? port.name : port.device;
    }
    text += format_text("{:<5} {:<5} {:<5} {:<9} {}\n", rank, gpu, numbers(each.numas), nic,
                        each.cpus.empty() ? "all" : format_cpu_set(each.cpus));
  }
  return text;
}

}  // namespace

std::string node_map_text(const NodeMap& map) {
  std::string text = header(map) + drawing(map) + distances(map) + ranks(map);
  if (!map.matching.notes.empty()) text += "\n";
  for (const std::string& note : map.matching.notes) text += format_text("note: {}\n", note);
  return text;
}

}  // namespace hvd
