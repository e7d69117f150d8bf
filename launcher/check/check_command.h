// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/check_options.h"

namespace hvd {

/// `hvdrun check`: prints what works here. Returns the exit code.
int run_check(const CheckOptions& options);

/// `hvdrun --version`. Returns the exit code.
int run_version(const VersionOptions& options);

}  // namespace hvd
