// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/command.h"
#include "launcher/run/job_output.h"
#include "launcher/run/loss_pipe.h"

namespace hvd {

struct SupervisorOptions {
  JobOutputOptions output;
  std::chrono::milliseconds grace{10'000};
  std::vector<std::string> marks;  ///< Of processes that are ours: see kill_job_processes.
  bool verbose = false;
};

/// Runs the commands to their end: passes on output, signals and the first failure, and leaves no
/// process behind. Returns hvdrun's exit code: the first failing rank's own (128 + signal), 128 +
/// signal when hvdrun was told to end, else 0.
/// `losses`: where ranks that are children of ours say whom they lost; may be null.
Result<int> supervise(const std::vector<Command>& commands, const SupervisorOptions& options,
                      LossPipe* losses);

}  // namespace hvd
