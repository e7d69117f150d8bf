// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// What one look asks about beside the configuration and the partitions.
struct LiveQuestion {
  bool nodes = false;
  std::string job = {};    ///< Id; empty: about none.
  bool job_alone = false;  ///< Not about configuration and partitions either.
  int interrupt = -1;      ///< A descriptor that ends the wait when it becomes readable.
};

/// The libslurm whose header this hvdrun was compiled with: "libslurm.so.38"; empty: none was.
std::string slurm_library_name();

/// Why that library cannot be used here; empty: it can. It is opened, and nothing in it is called.
std::string slurm_library_problem();

/// The answer in the words of `scontrol --oneliner`. libslurm runs in a child process, since it
/// may end its process and waits 9 s for a silent controller; past the deadline that is killed.
/// Only where there is a slurm.conf.
Result<std::string> ask_slurm_library(const LiveQuestion& question, Deadline deadline);

}  // namespace hvd
