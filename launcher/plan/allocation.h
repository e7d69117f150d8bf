// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/options/run_options.h"
#include "topology/cpu_set.h"
#include "topology/identity.h"

namespace hvd {

/// What hvdrun does with the program.
enum class Way {
  kTask,        ///< `srun hvdrun prog`: this process is a rank; prepare and exec.
  kSlurmShell,  ///< `hvdrun prog` in a batch or salloc shell: start and supervise srun.
  kLocal,       ///< `hvdrun -np 4 prog`: fork the ranks on this machine.
};

/// What hvdrun was given, read once; everything decided from it is decided by pure functions.
struct Allocation {
  Way way = Way::kLocal;
  Environment environment;
  std::optional<Identity> identity;  ///< Way::kTask only.
  std::string host;                  ///< Name of this machine.
  std::vector<std::string> hosts;    ///< Nodes of the job or step; this machine outside Slurm.
  std::vector<int> tasks_per_node;   ///< What Slurm was asked for; empty: not said.
  int job_parts = 1;                 ///< Of a heterogeneous job: srun takes them all.
  std::vector<CpuSet> cores;         ///< Cores of this process's mask, in order of nearness.
  int gpus_on_machine = 0;           ///< Device files seen; the visible list may name fewer.
};

/// Reads the environment and the machine. Fails on contradicting or malformed variables.
Result<Allocation> read_allocation(const RunOptions& options, const Environment& environment);

}  // namespace hvd
