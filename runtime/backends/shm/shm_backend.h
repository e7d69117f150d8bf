// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective/backend.h"

namespace hvd {

/// Collectives among the ranks of one node, through their shared memory.
extern const BackendEntry kShmBackend;

}  // namespace hvd
