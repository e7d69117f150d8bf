// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective/backend.h"

namespace hvd {

/// Collectives over several nodes: shared memory within each, one TCP lane per local rank between.
extern const BackendEntry kTcpBackend;

}  // namespace hvd
