// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "launcher/cluster/library_text.h"
#include "launcher/cluster/live_cluster.h"
#include "launcher/cluster/live_source.h"

namespace hvd {

/// For a command that works without the answer as well.
inline constexpr std::chrono::seconds kShortLook{4};
/// For one that is typed for the answer: clients of Slurm wait 9 s for a silent controller.
inline constexpr std::chrono::seconds kLongLook{25};

/// A live cluster, and who told of it.
struct LiveAnswer {
  LiveCluster cluster;
  std::string source;              ///< "libslurm.so.38, ..."
  std::vector<std::string> notes;  ///< What could not be learned, and why.
};

/// Asks the cluster of this machine, and slurmdbd for its QoS. What fails before the deadline is
/// tried the other way. kUnsupported: Slurm is not here.
Result<LiveAnswer> read_live_cluster(const LiveQuestion& question, const Environment& environment,
                                     Deadline deadline);

/// The lines of `scontrol --oneliner show job`, from whoever can be asked. kTimeout also where
/// the descriptor `interrupt` becomes readable.
Result<std::string> read_live_job(const std::string& job, const Environment& environment,
                                  Deadline deadline, int interrupt = -1);

/// The nodes that a job has now; none: it does not run, or its list cannot be read.
Result<std::vector<std::string>> read_job_nodes(const std::string& job,
                                                const Environment& environment, int interrupt);

}  // namespace hvd
