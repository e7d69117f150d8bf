// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "topology/cpu_set.h"

namespace hvd {

/// The CPUs of this process's affinity mask.
CpuSet affinity_mask();

/// The cores of the mask, each with its CPUs (hardware threads) in it, neighbours in memory beside
/// each other. Where sysfs is hidden every CPU counts as a core.
std::vector<CpuSet> read_cores(const CpuSet& mask);

}  // namespace hvd
