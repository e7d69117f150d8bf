// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "base/format.h"
#include "launcher/node/sysfs_parts.h"

namespace hvd {
namespace {

constexpr std::string_view kCpus = "/sys/devices/system/cpu";
constexpr std::string_view kNodes = "/sys/devices/system/node";

std::uint64_t memory_of(const FileTree& tree, int node) {
  // "Node 0 MemTotal:       263773872 kB"
  const std::string text = tree.read(format_text("{}/node{}/meminfo", kNodes, node));
  constexpr std::string_view kLabel = "MemTotal:";
  const std::size_t at = text.find(kLabel);
  if (at == std::string::npos) return 0;
  const std::size_t number = text.find_first_not_of(' ', at + kLabel.size());
  if (number == std::string::npos) return 0;
  std::uint64_t kib = 0;
  (void)std::from_chars(text.data() + number, text.data() + text.size(), kib);
  return kib * 1024;
}

/// Core by core: one file each, and none where the kernel says that there is no SMT.
std::vector<CpuSet> core_sets(const FileTree& tree, const CpuSet& online) {
  const bool has_smt = tree.read_number(format_text("{}/smt/active", kCpus), 1) != 0;
  std::vector<CpuSet> cores;
  std::vector<bool> is_known(online.empty() ? 0 : static_cast<std::size_t>(online.back()) + 1);
  for (const int cpu : online) {
    if (is_known[static_cast<std::size_t>(cpu)]) continue;
    CpuSet core;
    if (has_smt) core = cpu_list(tree, format_text("{}/cpu{}/topology/core_cpus_list", kCpus, cpu));
    if (has_smt && core.empty()) {  // before Linux 5.3
      core = cpu_list(tree, format_text("{}/cpu{}/topology/thread_siblings_list", kCpus, cpu));
    }
    std::erase_if(core, [&](int other) {
      return other < cpu || static_cast<std::size_t>(other) >= is_known.size();
    });
    if (core.empty() || core.front() != cpu) core = {cpu};
    for (const int other : core) is_known[static_cast<std::size_t>(other)] = true;
    cores.push_back(std::move(core));
  }
  return cores;
}

/// By CPU, its package as the kernel counts; a file for each package, not for each CPU.
std::map<int, int> packages_of(const FileTree& tree, const CpuSet& online) {
  std::map<int, int> packages;
  for (const int cpu : online) {
    if (packages.contains(cpu)) continue;
    const std::string topology = format_text("{}/cpu{}/topology", kCpus, cpu);
    const int package =
        static_cast<int>(std::max(0LL, tree.read_number(topology + "/physical_package_id", 0)));
    CpuSet cpus = cpu_list(tree, topology + "/package_cpus_list");
    if (cpus.empty()) cpus = cpu_list(tree, topology + "/core_siblings_list");
    packages[cpu] = package;
    for (const int other : cpus) packages.emplace(other, package);
  }
  return packages;
}

}  // namespace

CpuSet cpu_list(const FileTree& tree, std::string_view path) {
  return parse_cpu_set(tree.read(path)).value_or({});
}

void read_cpus(const FileTree& tree, NodeTopology& topology) {
  const CpuSet online = cpu_list(tree, format_text("{}/online", kCpus));
  std::map<int, int> numa_of;
  for (const int id : cpu_list(tree, format_text("{}/online", kNodes))) {
    NodeNuma numa;
    numa.id = id;
    numa.cpus = cpu_list(tree, format_text("{}/node{}/cpulist", kNodes, id));
    if (numa.cpus.empty()) continue;  // memory without CPUs: a GPU's, or CXL
    numa.memory_bytes = memory_of(tree, id);
    for (const int cpu : numa.cpus) numa_of[cpu] = id;
    topology.numas.push_back(std::move(numa));
  }
  if (topology.numas.empty() && !online.empty()) topology.numas.push_back({0, online, 0});
  const std::map<int, int> packages = packages_of(tree, online);
  std::map<int, int> first_of_package;
  for (const auto& [cpu, package] : packages) first_of_package.emplace(package, cpu);
  for (CpuSet& cpus : core_sets(tree, online)) {
    NodeCore core;
    core.package = packages.at(cpus.front());
    const auto numa = numa_of.find(cpus.front());
    core.numa = numa == numa_of.end() ? topology.numas.front().id : numa->second;
    core.cpus = std::move(cpus);
    topology.cores.push_back(std::move(core));
  }
  std::map<int, int> first_of_numa;
  for (const NodeNuma& numa : topology.numas) first_of_numa[numa.id] = numa.cpus.front();
  const auto place = [&](const NodeCore& core) {
    return std::tuple(first_of_package.at(core.package), first_of_numa.at(core.numa),
                      core.cpus.front());
  };
  std::sort(topology.cores.begin(), topology.cores.end(),
            [&](const NodeCore& a, const NodeCore& b) { return place(a) < place(b); });
}

}  // namespace hvd
