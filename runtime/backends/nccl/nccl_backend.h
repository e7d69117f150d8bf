// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective/backend.h"

namespace hvd {

/// "nccl": GPU memory, in stream order. Declines in a build without the headers of a vendor.
extern const BackendEntry kNcclBackend;

}  // namespace hvd
