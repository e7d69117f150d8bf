// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/node/node_topology.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/host_slots.h"
#include "launcher/plan/other_job.h"
#include "topology/cpu_set.h"
#include "topology/identity.h"

namespace hvd {

/// `hvdrun -np 4 prog`: the ranks are forked on this machine.
struct LocalLaunch {
  std::optional<Identity> around;  ///< -np inside a rank: which of which job.
  std::optional<OtherJob> other;   ///< The job of PBS, LSF or Flux that this is in.
};

/// `srun hvdrun prog`: this process is a rank already, and becomes the program.
struct TaskLaunch {
  Identity identity;
  /// The CPUs of the launcher that started the ranks of this machine; empty: not known, or Slurm,
  /// which tells by variables what it has bound tasks to.
  CpuSet launcher_mask = {};
};

/// Tells the hvdrun in each task that another one is around srun, and which process task 0 is: that
/// of a step that came later begins behind the others. The hvdrun in task 0 says which step it is.
inline constexpr std::string_view kStepRequest = "HVD_REPORT_STEP";

/// `hvdrun prog` in a batch or salloc shell: srun starts the ranks, hvdrun in each.
struct SrunLaunch {
  std::vector<int> tasks_per_node;  ///< What Slurm was asked for; empty: not said.
  int job_parts = 1;                ///< Of a heterogeneous job: srun takes them all.
};

/// How the program is started, with what only that way knows.
using Launch = std::variant<LocalLaunch, TaskLaunch, SrunLaunch>;

/// What hvdrun was given, read once; everything decided from it is decided by pure functions.
struct Allocation {
  Launch launch;
  Environment environment;
  std::string host;                ///< Name of this machine.
  std::vector<std::string> hosts;  ///< Nodes of the job or step; this machine outside Slurm.
  CpuSet mask;                     ///< CPUs that this process may use; empty: not readable.
  NodeTopology node;               ///< This machine; empty: SrunLaunch.
  int gpus_on_machine = 0;         ///< Device files seen; the visible list may name fewer.
  int gpus_open = 0;               ///< Of these, how many no device cgroup closes.
  std::optional<SlotsHere> slots;  ///< LocalLaunch: as --host-discovery-script says.

  // The launch where it is of that kind, else null.
  const LocalLaunch* local() const { return std::get_if<LocalLaunch>(&launch); }
  const TaskLaunch* task() const { return std::get_if<TaskLaunch>(&launch); }
  const SrunLaunch* srun() const { return std::get_if<SrunLaunch>(&launch); }
};

/// Reads the environment and the machine. Fails on contradicting or malformed variables.
Result<Allocation> read_allocation(const RunOptions& options, const Environment& environment);

}  // namespace hvd
