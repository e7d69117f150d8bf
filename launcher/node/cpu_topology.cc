// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "launcher/node/read_node.h"

namespace hvd {

CpuSet affinity_mask() {
  CpuSet cpus;
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 4) {
    cpu_set_t* mask = CPU_ALLOC(capacity);
    if (mask == nullptr) return cpus;
    const std::size_t size = CPU_ALLOC_SIZE(capacity);
    const bool failed = ::sched_getaffinity(0, size, mask) != 0;
    for (int cpu = 0; !failed && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, mask)) cpus.push_back(cpu);
    }
    CPU_FREE(mask);
    if (!failed || errno != EINVAL) return cpus;  // EINVAL: the kernel counts more CPUs.
  }
  return cpus;
}

std::vector<CpuSet> read_cores(const CpuSet& mask) {
  std::vector<CpuSet> cores;
  std::size_t found = 0;
  for (const NodeCore& core : read_node("", {}).cores) {
    CpuSet cpus;
    std::set_intersection(core.cpus.begin(), core.cpus.end(), mask.begin(), mask.end(),
                          std::back_inserter(cpus));
    found += cpus.size();
    if (!cpus.empty()) cores.push_back(std::move(cpus));
  }
  if (found == mask.size()) return cores;
  cores.clear();
  for (const int cpu : mask) cores.push_back({cpu});
  return cores;
}

}  // namespace hvd
