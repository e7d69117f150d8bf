// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/command.h"
#include "launcher/run/job_events.h"
#include "launcher/run/job_output.h"
#include "launcher/run/job_store.h"
#include "launcher/run/loss_pipe.h"
#include "launcher/run/recovery.h"
#include "launcher/run/restarts.h"
#include "launcher/run/room.h"

namespace hvd {

struct SupervisorOptions {
  JobOutputOptions output;
  std::chrono::milliseconds grace{10'000};
  std::vector<std::string> marks;  ///< Of processes that are ours: see kill_job_processes.
  bool verbose = false;
};

/// What connects hvdrun with ranks that are children of its own; null with those of srun, unless
/// the job is elastic.
struct RankChannels {
  LossPipe* losses = nullptr;    ///< Where they say whom they lost.
  JobStore* store = nullptr;     ///< Where they meet.
  Recovery* recovery = nullptr;  ///< Of an elastic job; null: the first failure ends the job.
  Restarts* restarts = nullptr;  ///< Likewise.
  Room* room = nullptr;          ///< Of one that may have more or fewer ranks.
  JobEvents events{};            ///< For whoever has started this hvdrun as a child.
};

/// Runs the commands to their end: passes on output, signals and the first failure, and leaves no
/// process behind. Returns hvdrun's exit code: the first failing rank's own (128 + signal), 128 +
/// signal when hvdrun was told to end, 1 when output could not be written, else 0.
Result<int> supervise(const std::vector<Command>& commands, const SupervisorOptions& options,
                      const RankChannels& channels);

}  // namespace hvd
