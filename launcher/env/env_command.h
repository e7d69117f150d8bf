// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/env_options.h"

namespace hvd {

/// `hvdrun env`: prints what hvdrun sets here. Returns the exit code.
int run_env(const EnvOptions& options);

/// `hvdrun sites`: lists the known sites, or prints one. Returns the exit code.
int run_sites(const SitesOptions& options);

}  // namespace hvd
