// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/node/node_topology.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/other_job.h"
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
  std::optional<Identity> around;    ///< -np inside a rank: of which job it is one.
  std::optional<OtherJob> other;     ///< Way::kLocal only: of PBS, LSF, Flux.
  std::string host;                  ///< Name of this machine.
  std::vector<std::string> hosts;    ///< Nodes of the job or step; this machine outside Slurm.
  std::vector<int> tasks_per_node;   ///< What Slurm was asked for; empty: not said.
  int job_parts = 1;                 ///< Of a heterogeneous job: srun takes them all.
  CpuSet mask;                       ///< CPUs that this process may use; empty: not readable.
  NodeTopology node;                 ///< This machine; empty: Way::kSlurmShell.
  int gpus_on_machine = 0;           ///< Device files seen; the visible list may name fewer.
  int gpus_open = 0;                 ///< Of these, how many no device cgroup closes.
};

/// Reads the environment and the machine. Fails on contradicting or malformed variables.
Result<Allocation> read_allocation(const RunOptions& options, const Environment& environment);

}  // namespace hvd
