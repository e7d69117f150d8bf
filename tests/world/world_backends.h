// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collective/backend.h"

namespace hvd {

/// The backends that a world of threads can use.
std::span<const BackendEntry> world_backends();

}  // namespace hvd
