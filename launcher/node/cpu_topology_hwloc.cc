// SPDX-License-Identifier: Apache-2.0
#include <hwloc.h>

#include <algorithm>

#include "launcher/node/cpu_topology.h"

namespace hvd {
namespace {

CpuSet cpus_in(hwloc_const_bitmap_t set, const CpuSet& mask) {
  CpuSet cpus;
  for (const int cpu : mask) {
    if (hwloc_bitmap_isset(set, static_cast<unsigned>(cpu)) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<CpuSet> each_alone(const CpuSet& mask) {
  std::vector<CpuSet> cores;
  for (const int cpu : mask) cores.push_back({cpu});
  return cores;
}

}  // namespace

std::vector<CpuSet> read_cores(const CpuSet& mask) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return each_alone(mask);
  std::vector<CpuSet> cores;
  std::size_t found = 0;
  if (hwloc_topology_load(topology) == 0) {
    // hwloc's logical order: cores that share a cache or a memory stand beside each other.
    const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    for (int i = 0; i < count; ++i) {
      const hwloc_obj_t core =
          hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
      CpuSet cpus = cpus_in(core->cpuset, mask);
      found += cpus.size();
      if (!cpus.empty()) cores.push_back(std::move(cpus));
    }
  }
  hwloc_topology_destroy(topology);
  return found == mask.size() ? cores : each_alone(mask);
}

}  // namespace hvd
