// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/node/node_topology.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/allocation.h"
#include "topology/cpu_set.h"

namespace hvd {

/// Where one rank runs and with what.
struct RankPlacement {
  int rank = 0;
  int local_rank = 0;
  int local_size = 1;
  int node = 0;
  std::string host;               ///< For messages: "jz1", "box/node1".
  std::optional<int> gpu;         ///< Entry of the visible list.
  std::string gpu_entry;          ///< The entry itself: "2", "GPU-...".
  std::string gpu_id;             ///< The GPU's name on its node (HVD_GPU_ID); empty: not known.
  int gpu_on_node = -1;           ///< GPU of the topology; -1: none or not known.
  std::string nic;                ///< Nearest NIC; empty: none known.
  CpuSet cpus;                    ///< To bind to; empty: as inherited.
  CpuSet usable_cpus;             ///< What it then has, bound or inherited.
  bool is_bound = false;          ///< By hvdrun, or as a task by whoever started it.
  std::vector<int> memory_numas;  ///< NUMA nodes to take memory from first; empty: as inherited.
  int threads = 1;                ///< Cores it may count on, for OMP_NUM_THREADS.
};

/// The step of Slurm whose tasks the ranks are.
struct SrunStep {
  std::vector<int> ranks_per_node;  ///< Where Slurm said it.
  bool says_size = false;           ///< srun must be told the number of ranks.
  int job_parts = 1;                ///< Of a heterogeneous job.
  int cpus_per_rank = 0;            ///< For srun's -c; 0: not said.
};

/// How the job fares where ranks are lost. Its processes are numbered: the ranks of the start
/// first, then the spares, which wait.
struct Elasticity {
  int min_size = 1;  ///< With fewer ranks it ends.
  int max_size = 1;  ///< It never has more.
  int spare_count = 0;
  int restarts = 0;                      ///< Of lost processes, in the whole job.
  std::vector<RankPlacement> spares{};   ///< LocalLaunch only.
  std::vector<RankPlacement> reserve{};  ///< Likewise: places for processes that start later.
};

/// Who runs where. The ranks that this process starts: all of them (LocalLaunch), the one it
/// becomes (TaskLaunch), none (SrunLaunch: the tasks place themselves).
struct Placement {
  int size = 1;  ///< Ranks of the job.
  int node_count = 1;
  bool knows_places = true;  ///< Which of its node's ranks each is; some launchers do not say it.
  std::string this_host;
  std::vector<std::string> hosts;     ///< By node, as far as known; virtual nodes share one.
  std::optional<SrunStep> srun;       ///< SrunLaunch only.
  std::vector<RankPlacement> ranks;   ///< TaskLaunch: the process, though it be a spare.
  std::optional<Elasticity> elastic;  ///< The job goes on without a rank that is lost.
  int virtual_nodes = 1;
  int gpus_per_node = 0;
  std::string gpu_variable;           ///< Of the visible list; empty: counted on the node.
  NodeTopology topology;              ///< Of this machine; empty: SrunLaunch.
  bool reports_bindings = false;      ///< --report-bindings
  std::vector<std::string> notes;     ///< What was decided and why, for --verbose and --dry-run.
  std::vector<std::string> warnings;  ///< What costs the job speed, and the remedy.

  /// Ranks and spares, as they start.
  int processes() const { return size + (elastic ? elastic->spare_count : 0); }
  bool is_spare(const RankPlacement& process) const { return process.rank >= size; }
};

/// Decides who runs where. Pure.
Result<Placement> place(const RunOptions& options, const Allocation& allocation);

}  // namespace hvd
