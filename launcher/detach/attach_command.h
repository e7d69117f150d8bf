// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/attach_options.h"

namespace hvd {

/// `hvdrun attach`: lists jobs in the background, or shows one until it ends, and gives its exit
/// code.
int run_attach(const AttachOptions& options);

}  // namespace hvd
