// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collective/backend.h"

namespace hvd {

/// Every backend of this build, in order of preference.
std::span<const BackendEntry> backend_table();

}  // namespace hvd
