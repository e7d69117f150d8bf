// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options/preempt_options.h"

namespace hvd {

/// `hvdrun test-preempt`: runs the program twice, and prints whether it survives a preemption.
/// Returns the exit code.
int run_test_preempt(const PreemptOptions& options);

}  // namespace hvd
