// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/allocation.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "bootstrap/local_host.h"
#include "launcher/node/affinity_mask.h"
#include "launcher/node/launcher_mask.h"
#include "launcher/node/nvml.h"
#include "launcher/node/read_node.h"
#include "launcher/plan/slurm_job.h"
#include "topology/hostlist.h"
#include "topology/identity.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// NVIDIA's device files, and how many of them a device cgroup leaves open. access() asks the
/// cgroup, too, and wakes no GPU as open() would.
void count_nvidia_devices(Allocation& allocation) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dev(::opendir("/dev"), ::closedir);
  if (dev == nullptr) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone.
  while (const dirent* entry = ::readdir(dev.get())) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    constexpr std::string_view kPrefix = "nvidia";
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) continue;
    const std::string_view number = name.substr(kPrefix.size());
    if (std::any_of(number.begin(), number.end(), [](char c) { return c < '0' || c > '9'; })) {
      continue;
    }
    ++allocation.gpus_on_machine;
    const std::string path = "/dev/" + std::string(name);
    if (::access(path.c_str(), R_OK | W_OK) == 0) ++allocation.gpus_open;
  }
}

/// The nodes of the step that made this process a rank, where Slurm says them.
Status read_slurm_step(Allocation& allocation) {
  const auto nodes = allocation.environment.get("SLURM_STEP_NODELIST");
  if (!nodes || !in_slurm_step(allocation.environment)) return Status::ok();
  auto hosts = expand_hostlist(*nodes);
  if (!hosts.is_ok()) return hosts.status().with_context("SLURM_STEP_NODELIST");
  allocation.hosts = std::move(hosts).value();
  // In a container the name of the machine is another one.
  allocation.host = allocation.environment.get("SLURMD_NODENAME").value_or(allocation.host);
  return Status::ok();
}

/// The nodes and tasks of the job around a batch or salloc shell.
Status read_job(Allocation& allocation) {
  HVD_TRY_ASSIGN(SlurmJob job, read_slurm_job(allocation.environment));
  allocation.hosts = std::move(job.hosts);
  allocation.launch = SrunLaunch{std::move(job.tasks_per_node), job.parts};
  return Status::ok();
}

/// True where a terminal controls this process. The tasks of a step without --pty have none.
bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return false;
  ::close(terminal);
  return true;
}

/// The rank that this process is already, where it is not a shell that a person types in.
std::optional<Identity> read_around(const Environment& environment) {
  auto identity = derive_identity(environment);
  if (!identity.is_ok() || !identity.value()) return std::nullopt;
  const bool is_shell = identity.value()->source == "Slurm step" &&
                        in_pty_shell(environment, ::getpid(), has_terminal());
  return is_shell ? std::nullopt : std::move(identity).value();
}

CpuSet read_launcher_mask(const Identity& identity) {
  const std::string launcher = launcher_of(identity);
  if (launcher == kSlurmStep) return {};
  for (const LaunchSource& source : kLaunchSources) {
    if (source.name == launcher) return launcher_mask(source.rank);
  }
  return {};
}

/// Decides how the program is started, and reads the nodes of the step or job.
Status read_launch(Allocation& allocation) {
  const Environment& environment = allocation.environment;
  HVD_TRY_ASSIGN(auto identity, derive_identity(environment));
  if (identity && identity->source == "Slurm step" &&
      in_pty_shell(environment, ::getpid(), has_terminal())) {
    return Status::ok();
  }
  if (identity) {
    HVD_TRY(refuse_left_over(*identity, environment));
    CpuSet mask = read_launcher_mask(*identity);
    allocation.launch = TaskLaunch{*std::move(identity), std::move(mask)};
    return read_slurm_step(allocation);
  }
  if (in_slurm_shell(environment)) return read_job(allocation);
  allocation.launch = LocalLaunch{.around = {}, .other = read_other_job(environment)};
  return Status::ok();
}

/// With -np the user asks for ranks on this machine, whatever is around it.
LocalLaunch read_local_launch(const Environment& environment) {
  LocalLaunch launch;
  launch.around = read_around(environment);
  if (!launch.around && !in_slurm_shell(environment)) launch.other = read_other_job(environment);
  return launch;
}

/// The machine, no more of it than is asked: every file costs time at each start.
NodeTopology read_machine(const RunOptions& options, const Allocation& allocation) {
  const std::string visible = allocation.environment.get("CUDA_VISIBLE_DEVICES").value_or("");
  NodeParts parts;
  parts.gpus = allocation.gpus_on_machine > 0 || !visible.empty() ||
               allocation.environment.has("ROCR_VISIBLE_DEVICES") ||
               allocation.environment.has("HIP_VISIBLE_DEVICES") ||
               allocation.environment.has("ZE_AFFINITY_MASK");
  parts.nics = options.bind.report;
  parts.gpu_names = visible.find("GPU-") != std::string::npos;
  NodeTopology node = read_node("", parts);
  // Only NVML says which GPU an instance is part of.
  if (visible.find("MIG-") != std::string::npos) add_nvml_names(kNvmlLibrary, node);
  return node;
}

}  // namespace

Result<Allocation> read_allocation(const RunOptions& options, const Environment& environment) {
  Allocation allocation;
  allocation.environment = environment;
  allocation.host = local_host_name();
  allocation.hosts = {allocation.host};
  if (options.ranks) {
    allocation.launch = read_local_launch(environment);
  } else {
    HVD_TRY(read_launch(allocation));
  }
  if (allocation.srun() != nullptr) return allocation;
  count_nvidia_devices(allocation);
  allocation.mask = affinity_mask();
  allocation.node = read_machine(options, allocation);
  return allocation;
}

}  // namespace hvd
