// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/lint_options.h"

namespace hvd {

/// `hvdrun lint`. The exit code: 0 nothing is wrong, 1 something is, 2 wrong usage.
int run_lint(const LintOptions& options);

}  // namespace hvd
