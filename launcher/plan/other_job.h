// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace hvd {

/// The job of another scheduler than Slurm around this process, which is not a rank of it. hvdrun
/// does not start ranks on the nodes of such a job; the scheduler's own command does.
struct OtherJob {
  std::string_view scheduler;  ///< "PBS".
  std::string_view variable;   ///< The one that shows the job.
  std::string_view command;    ///< What starts RANKS ranks of PROGRAM on all its nodes.
  int nodes = 0;               ///< 0: not known.
};

/// Reads the variables of PBS, LSF, OAR, Grid Engine and Flux, and the node files that they name.
/// Nothing: there is no such job.
std::optional<OtherJob> read_other_job(const Environment& environment);

/// True where the job has, or may have, nodes on which hvdrun starts nothing.
inline bool has_other_nodes(const std::optional<OtherJob>& job) { return job && job->nodes != 1; }

/// "a job of PBS on 2 nodes (PBS_NODEFILE)".
std::string describe_other_job(const OtherJob& job);

}  // namespace hvd
