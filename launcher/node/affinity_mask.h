// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "topology/cpu_set.h"

namespace hvd {

/// The CPUs of this process's affinity mask.
CpuSet affinity_mask();

}  // namespace hvd
