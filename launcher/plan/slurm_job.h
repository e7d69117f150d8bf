// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "topology/identity.h"

namespace hvd {

/// The Slurm job around a batch or salloc shell, as its environment tells it.
struct SlurmJob {
  std::vector<std::string> hosts;
  std::vector<int> tasks_per_node;  ///< Empty: not said.
  int parts = 1;                    ///< Of a heterogeneous job; hosts and tasks are those of all.
};

/// Reads SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE, in a heterogeneous job those of each part.
/// What is missing or malformed is kInvalidArgument, with the line to type instead.
Result<SlurmJob> read_slurm_job(const Environment& environment);

/// An identity of one rank that variables of an earlier launch leave behind (a notebook's, a
/// container's), in a shell of a job of several tasks: they would make one rank of that job.
Status refuse_left_over(const Identity& identity, const Environment& environment);

/// True where this process runs in the one-task step of `srun --pty bash`, and is not its task:
/// what is typed there may use all that the step was given. `pid` is this process's.
bool in_pty_shell(const Environment& environment, long long pid, bool has_terminal);

}  // namespace hvd
