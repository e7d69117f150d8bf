// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/cpu_topology.h"

namespace hvd {

std::vector<CpuSet> read_cores(const CpuSet& mask) {
  std::vector<CpuSet> cores;
  for (const int cpu : mask) cores.push_back({cpu});
  return cores;
}

}  // namespace hvd
