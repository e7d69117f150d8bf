// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "topology/cpu_set.h"

namespace hvd {

/// The CPUs of whoever started the ranks of this machine, of which this process is one: the nearest
/// process above it whose environment has no `rank_variable` (mpirun, a daemon of it). What this
/// process may use less than that, it was bound to. Empty: not known.
CpuSet launcher_mask(std::string_view rank_variable);

}  // namespace hvd
