// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/allocation.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "launcher/node/cpu_topology.h"
#include "topology/hostlist.h"
#include "topology/task_map.h"

namespace hvd {
namespace {

int count_nvidia_devices() {
  const std::unique_ptr<DIR, int (*)(DIR*)> dev(::opendir("/dev"), ::closedir);
  if (dev == nullptr) return 0;
  int count = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone.
  while (const dirent* entry = ::readdir(dev.get())) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    constexpr std::string_view kPrefix = "nvidia";
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) continue;
    const std::string_view number = name.substr(kPrefix.size());
    if (std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      ++count;
    }
  }
  return count;
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The nodes of the step that made this process a rank, where Slurm says them.
Status read_slurm_step(Allocation& allocation) {
  const auto nodes = allocation.environment.get("SLURM_STEP_NODELIST");
  if (!nodes || !in_slurm_step(allocation.environment)) return Status::ok();
  auto hosts = expand_hostlist(*nodes);
  if (!hosts.is_ok()) return hosts.status().with_context("SLURM_STEP_NODELIST");
  allocation.hosts = std::move(hosts).value();
  return Status::ok();
}

/// The nodes and tasks of the job around a batch or salloc shell.
Status read_slurm_job(Allocation& allocation) {
  const auto nodes = allocation.environment.get("SLURM_JOB_NODELIST");
  if (!nodes) {
    return error(Code::kInvalidArgument,
                 "SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not: outside of the allocation, or "
                 "in a heterogeneous job; start the ranks with `srun hvdrun PROGRAM`, or on this "
                 "machine alone with `hvdrun -np N PROGRAM`");
  }
  auto hosts = expand_hostlist(*nodes);
  if (!hosts.is_ok()) return hosts.status().with_context("SLURM_JOB_NODELIST");
  allocation.hosts = std::move(hosts).value();
  const auto tasks = allocation.environment.get("SLURM_TASKS_PER_NODE");
  if (!tasks) return Status::ok();
  auto map = parse_task_map(*tasks);
  if (!map.is_ok()) return map.status().with_context("SLURM_TASKS_PER_NODE");
  allocation.tasks_per_node = std::move(map).value();
  return Status::ok();
}

}  // namespace

Result<Allocation> read_allocation(const RunOptions& options, const Environment& environment) {
  Allocation allocation;
  allocation.environment = environment;
  allocation.host = host_name();
  allocation.hosts = {allocation.host};
  // With -np the user asks for ranks on this machine, whatever is around it.
  if (!options.ranks) {
    HVD_TRY_ASSIGN(allocation.identity, derive_identity(environment));
    if (allocation.identity) {
      allocation.way = Way::kTask;
      HVD_TRY(read_slurm_step(allocation));
    } else if (in_slurm_shell(environment)) {
      allocation.way = Way::kSlurmShell;
      HVD_TRY(read_slurm_job(allocation));
      return allocation;
    }
  }
  allocation.gpus_on_machine = count_nvidia_devices();
  const CpuSet mask = affinity_mask();
  const bool divides = options.bind == BindPolicy::kCores ||
                       (allocation.way == Way::kTask && options.bind == BindPolicy::kDefault);
  if (divides) {
    allocation.cores = read_cores(mask);
  } else {
    for (const int cpu : mask) allocation.cores.push_back({cpu});
  }
  return allocation;
}

}  // namespace hvd
