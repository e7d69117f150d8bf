// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// The host name as gethostname(2) gives it.
std::string local_host_name();

/// CPUs in this process's affinity mask, capped by the CPU quota of its cgroup; at least 1.
int usable_cpus();

/// The quota of a cgroup v2 `cpu.max` ("max 100000", "150000 100000") in whole CPUs, rounded up;
/// 0 when there is none.
int cpus_of_quota(const std::string& cpu_max);

}  // namespace hvd
