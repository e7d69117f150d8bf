// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/host_slots.h"

namespace hvd {

/// Calls the command of --host-discovery-script once. It is killed past the deadline, or when the
/// descriptor `interrupt` becomes readable.
Result<SlotsHere> ask_for_slots(const RunOptions& options, const std::string& host,
                                const Environment& environment, Deadline deadline,
                                int interrupt = -1);

/// Calls it until there are as many slots as the job needs to start, and says what it waits for.
Result<SlotsHere> await_slots(const RunOptions& options, const std::string& host,
                              const Environment& environment);

}  // namespace hvd
