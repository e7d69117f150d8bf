// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/topo_options.h"

namespace hvd {

/// `hvdrun topo`: draws the node. Returns the exit code.
int run_topo(const TopoOptions& options);

}  // namespace hvd
