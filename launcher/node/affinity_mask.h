// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "topology/cpu_set.h"

namespace hvd {

/// The CPUs of a process's affinity mask; 0: of this one. Empty: it cannot be read.
CpuSet affinity_mask(pid_t process = 0);

}  // namespace hvd
