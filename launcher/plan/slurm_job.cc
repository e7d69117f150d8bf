// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/slurm_job.h"

#include <algorithm>
#include <numeric>

#include "topology/hostlist.h"
#include "topology/identity.h"
#include "topology/launch_source.h"
#include "topology/task_map.h"

namespace hvd {
namespace {

constexpr int kMaxParts = 128;  // Slurm's MAX_HET_JOB_COMPS.

Result<std::vector<std::string>> read_hosts(const Environment& environment,
                                            const std::string& name) {
  auto hosts = expand_hostlist(*environment.get(name));
  if (!hosts.is_ok()) return hosts.status().with_context(name);
  return hosts;
}

Result<std::vector<int>> read_tasks(const Environment& environment, const std::string& name) {
  const auto text = environment.get(name);
  if (!text) return std::vector<int>();
  auto map = parse_task_map(*text);
  if (!map.is_ok()) return map.status().with_context(name);
  return map;
}

Result<SlurmJob> read_parts(const Environment& environment, int parts) {
  SlurmJob job;
  job.parts = parts;
  for (int part = 0; part < parts; ++part) {
    const std::string suffix = format_text("_HET_GROUP_{}", part);
    for (const char* variable : {"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"}) {
      if (environment.has(variable + suffix)) continue;
      return error(Code::kInvalidArgument,
                   "SLURM_HET_SIZE={}, but {}{} is not set: start one step over all parts of this "
                   "heterogeneous job with `srun --het-group=0-{} hvdrun PROGRAM`",
                   parts, variable, suffix, parts - 1);
    }
    HVD_TRY_ASSIGN(const auto hosts, read_hosts(environment, "SLURM_JOB_NODELIST" + suffix));
    HVD_TRY_ASSIGN(const auto tasks, read_tasks(environment, "SLURM_TASKS_PER_NODE" + suffix));
    if (hosts.size() != tasks.size()) {
      return error(Code::kInvalidArgument,
                   "SLURM_JOB_NODELIST{} has {} nodes, SLURM_TASKS_PER_NODE{} has {}", suffix,
                   hosts.size(), suffix, tasks.size());
    }
    job.hosts.insert(job.hosts.end(), hosts.begin(), hosts.end());
    job.tasks_per_node.insert(job.tasks_per_node.end(), tasks.begin(), tasks.end());
  }
  return job;
}

}  // namespace

Result<SlurmJob> read_slurm_job(const Environment& environment) {
  HVD_TRY_ASSIGN(const auto parts, environment.get_int("SLURM_HET_SIZE", 1, kMaxParts));
  if (parts && *parts > 1) return read_parts(environment, static_cast<int>(*parts));
  if (!environment.has("SLURM_JOB_NODELIST")) {
    return error(
        Code::kInvalidArgument,
        "SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not: outside of the allocation; "
        "start the ranks with `srun hvdrun PROGRAM`, or on this machine alone with `hvdrun "
        "-np N PROGRAM`");
  }
  SlurmJob job;
  HVD_TRY_ASSIGN(job.hosts, read_hosts(environment, "SLURM_JOB_NODELIST"));
  HVD_TRY_ASSIGN(job.tasks_per_node, read_tasks(environment, "SLURM_TASKS_PER_NODE"));
  return job;
}

Status refuse_left_over(const Identity& identity, const Environment& environment) {
  if (identity.size != 1 || !in_slurm_shell(environment)) return Status::ok();
  // What runs says more than that: mpirun has its daemon, hvdrun its store.
  const auto source =
      std::find_if(kLaunchSources.begin(), kLaunchSources.end(),
                   [&](const LaunchSource& one) { return one.name == identity.source; });
  const bool is_alive = source == kLaunchSources.end() || source->layer == LauncherLayer::kMpirun ||
                        source->layer == LauncherLayer::kFlux || environment.has("PMI_FD") ||
                        environment.has("PMI_PORT") || environment.has(launch_env::kStore);
  const auto job = read_slurm_job(environment);
  if (is_alive || !job.is_ok()) return Status::ok();
  const auto& tasks = job.value().tasks_per_node;
  const int count = std::max(std::accumulate(tasks.begin(), tasks.end(), 0),
                             static_cast<int>(job.value().hosts.size()));
  if (count < 2) return Status::ok();
  std::string names(source->rank);
  for (const std::string_view name : {source->size, source->mark}) {
    if (!name.empty() && environment.has(name)) names.append(" ").append(name);
  }
  return error(
      Code::kInvalidArgument,
      "{}={} says that this is the only rank of a job, and this is a shell of Slurm job {} "
      "with {} tasks: type `unset {}` where an earlier program has left them, or `hvdrun "
      "-np 1 PROGRAM` for one rank on this machine",
      source->size.empty() ? source->rank : source->size,
      environment.get(source->size.empty() ? source->rank : source->size).value_or(""),
      environment.get("SLURM_JOB_ID").value_or("?"), count, names);
}

bool in_pty_shell(const Environment& environment, long long pid, bool has_terminal) {
  if (!has_terminal || !environment.has("SLURM_PTY_PORT") || !in_slurm_step(environment)) {
    return false;
  }
  const auto tasks = environment.get_int("SLURM_STEP_NUM_TASKS", 1, 1);
  const auto task = environment.get_int("SLURM_TASK_PID", 1, 1LL << 32);
  return tasks.is_ok() && task.is_ok() && task.value() && *task.value() != pid;
}

}  // namespace hvd
