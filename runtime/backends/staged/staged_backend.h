// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective/backend.h"

namespace hvd {

/// Collectives on GPU memory through host memory: what no other backend of GPUs can do, or where
/// there is none. Moves tensors to pinned memory and back, and leaves the rest to the backend that
/// the process set has for CPU memory, with its bits and its promises.
extern const BackendEntry kStagedBackend;

}  // namespace hvd
