// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/placement_checks.h"

#include <algorithm>

#include "launcher/plan/binding.h"
#include "topology/identity.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

std::string idle_gpus(const VisibleGpus& visible, int local_size, bool is_task) {
  const int count = static_cast<int>(visible.entries.size());
  const std::string remedy = is_task
                                 ? format_text(
                                       "start one rank per GPU (--ntasks-per-node={}) or ask for "
                                       "fewer GPUs (--gpus-per-node={})",
                                       count, local_size)
                                 : format_text(
                                       "start one rank per GPU (-np {}) or hide the others "
                                       "(CUDA_VISIBLE_DEVICES)",
                                       count);
  return format_text("{} of {} GPUs stay idle, since {} rank{} on this machine: {}",
                     count - local_size, count, local_size, local_size == 1 ? " runs" : "s run",
                     remedy);
}

/// The flag of srun by which each task sees its own GPUs alone.
std::string closing_flag(const Environment& environment) {
  if (const auto bind = environment.get("SLURM_GPU_BIND")) return "--gpu-bind=" + *bind;
  if (const auto count = environment.get("SLURM_GPUS_PER_TASK")) return "--gpus-per-task=" + *count;
  if (const auto tres = environment.get("SLURM_TRES_PER_TASK")) return "--tres-per-task=" + *tres;
  return "Slurm (by --gpus-per-task, --tres-per-task or --gpu-bind)";
}

std::string hidden_gpus(const Environment& environment, int local_size) {
  return format_text(
      "{} hides the GPUs of a node's {} ranks from each other, so CUDA IPC and peer access between "
      "them are lost: ask for --gpus-per-node={} --gpu-bind=none instead (leave --gpu-bind out on "
      "Slurm 22.05), or add --gres-flags=allow-task-sharing to srun (Slurm 23.11.4 or newer)",
      closing_flag(environment), local_size, local_size);
}

bool has_any(const CpuSet& set, const CpuSet& of) {
  return std::any_of(of.begin(), of.end(),
                     [&](int cpu) { return std::binary_search(set.begin(), set.end(), cpu); });
}

bool is_near(const NodeTopology& topology, const NodeGpu& gpu, const CpuSet& cpus) {
  if (gpu.numa < 0 && gpu.near_cpus.empty()) return true;  // Nobody knows.
  if (!gpu.near_cpus.empty()) return has_any(gpu.near_cpus, cpus);
  const std::vector<int> numas = numas_of(topology, cpus);
  return std::find(numas.begin(), numas.end(), gpu.numa) != numas.end();
}

/// True where one of the CPUs is in the socket of the GPU.
bool is_in_socket(const NodeTopology& topology, const NodeGpu& gpu, const CpuSet& cpus) {
  const auto socket =
      std::find_if(topology.cores.begin(), topology.cores.end(), [&](const NodeCore& core) {
        return has_any(gpu.near_cpus, core.cpus) ||
               (gpu.near_cpus.empty() && core.numa == gpu.numa);
      });
  return std::any_of(topology.cores.begin(), topology.cores.end(), [&](const NodeCore& core) {
    return socket != topology.cores.end() && core.package == socket->package &&
           has_any(cpus, core.cpus);
  });
}

/// Who chose the CPUs of a rank can choose others.
std::string nearer_cpus(const RankPlacement& rank, const TaskLaunch* task) {
  if (task == nullptr || !rank.cpus.empty()) {
    return "give the job cores near its GPUs (sbatch --exclusive or "
           "--gres-flags=enforce-binding), or leave --bind out";
  }
  if (launcher_of(task->identity) == kSlurmStep) {
    return "have Slurm bind nothing (srun --cpu-bind=none), so that hvdrun can, or give the job "
           "cores near its GPUs (sbatch --gres-flags=enforce-binding)";
  }
  return format_text("have {} bind nothing (as mpirun --bind-to none), so that hvdrun can",
                     launcher_of(task->identity));
}

std::string far_rank(const RankPlacement& rank, const NodeGpu& gpu, const TaskLaunch* task) {
  return format_text("rank {}: its CPUs {} are far from its GPU {} ({}{}): {}", rank.rank,
                     format_cpu_set(rank.usable_cpus), *rank.gpu, gpu.bus_id,
                     gpu.numa < 0 ? "" : format_text(", NUMA node {}", gpu.numa),
                     nearer_cpus(rank, task));
}

}  // namespace

void append_warnings(const Allocation& allocation, const VisibleGpus& visible, int local_size,
                     Placement& placement) {
  const bool is_task = allocation.task() != nullptr;
  const int count = static_cast<int>(visible.entries.size());
  const bool speaks = !is_task || placement.ranks.front().rank == 0;
  if (speaks && !visible.is_private && count > local_size) {
    placement.warnings.push_back(idle_gpus(visible, local_size, is_task));
  }
  if (speaks && is_task && visible.is_private && local_size > 1 && allocation.gpus_open <= count) {
    placement.warnings.push_back(hidden_gpus(allocation.environment, local_size));
  }
  for (const RankPlacement& rank : placement.ranks) {
    if (rank.gpu_on_node < 0 || (is_task && rank.node != 0)) continue;
    const NodeGpu& gpu = placement.topology.gpus[static_cast<std::size_t>(rank.gpu_on_node)];
    if (is_near(placement.topology, gpu, rank.usable_cpus)) continue;
    if (is_in_socket(placement.topology, gpu, rank.usable_cpus)) {
      // All that is left on a DGX A100, whose GPUs hang in pairs on every second NUMA node.
      placement.notes.push_back(
          format_text("rank {}: CPUs {} in the socket of its GPU {}, on another NUMA node",
                      rank.rank, format_cpu_set(rank.usable_cpus), *rank.gpu));
      continue;
    }
    placement.warnings.push_back(far_rank(rank, gpu, allocation.task()));
  }
}

}  // namespace hvd
