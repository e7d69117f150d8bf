// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/header_options.h"

namespace hvd {

/// `hvdrun header`: prints a job header for a site. Returns the exit code.
int run_header(const HeaderOptions& options);

}  // namespace hvd
