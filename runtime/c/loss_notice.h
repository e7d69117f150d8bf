// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/environment.h"

namespace hvd {

/// Tells hvdrun, where it started this process (HVD_LOSS_PIPE), that this rank lost a peer. Does
/// nothing where the variable is absent, or names no longer the pipe that hvdrun made.
std::function<void(int lost)> loss_notice(const Environment& environment, int rank);

}  // namespace hvd
