// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/describe_options.h"

namespace hvd {

/// `hvdrun completion`: prints a script, or the names of a kind. Returns the exit code.
int run_completion(const CompletionOptions& options);

/// `hvdrun describe`: prints the table of commands. Returns the exit code.
int run_describe(const DescribeOptions& options);

}  // namespace hvd
