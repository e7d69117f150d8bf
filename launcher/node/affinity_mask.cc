// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/affinity_mask.h"

#include <sched.h>

#include <cerrno>

namespace hvd {

CpuSet affinity_mask(pid_t process) {
  CpuSet cpus;
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 4) {
    cpu_set_t* mask = CPU_ALLOC(capacity);
    if (mask == nullptr) return cpus;
    const std::size_t size = CPU_ALLOC_SIZE(capacity);
    const bool failed = ::sched_getaffinity(process, size, mask) != 0;
    for (int cpu = 0; !failed && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, mask)) cpus.push_back(cpu);
    }
    CPU_FREE(mask);
    if (!failed || errno != EINVAL) return cpus;  // EINVAL: the kernel counts more CPUs.
  }
  return cpus;
}

}  // namespace hvd
