// SPDX-License-Identifier: Apache-2.0
#include "launcher/environment_plan.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/srun_report.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// By which an outer launcher names its ranks; ours are others. A '*' ends a prefix.
constexpr std::array<std::string_view, 24> kReplaced{"SLURM_STEP_*",
                                                     "SLURM_STEPID",
                                                     "SLURM_PROCID",
                                                     "SLURM_LOCALID",
                                                     "SLURM_NODEID",
                                                     "SLURM_GTIDS",
                                                     "SLURM_TASK_PID",
                                                     "SLURM_CPU_BIND*",
                                                     "PMIX_*",
                                                     "PMI_*",
                                                     "PALS_*",
                                                     "OMPI_COMM_WORLD_*",
                                                     "OMPI_MCA_orte_*",
                                                     "MPI_LOCALRANKID",
                                                     "MPI_LOCALNRANKS",
                                                     "FLUX_TASK_*",
                                                     "RANK",
                                                     "WORLD_SIZE",
                                                     "LOCAL_RANK",
                                                     "LOCAL_WORLD_SIZE",
                                                     "GROUP_RANK",
                                                     "TORCHELASTIC_RUN_ID",
                                                     "HVD_LOCAL_DEVICE",
                                                     "HVD_VIRTUAL_NODE"};

/// What srun must not inherit from an outer `srun --pty`.
constexpr std::array<std::string_view, 3> kReplacedForSrun{"SLURM_CPU_BIND*", "PMIX_*", "PMI_*"};

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with("*")) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

template <std::size_t kCount>
std::vector<std::string> inherited_of(const Environment& environment,
                                      const std::array<std::string_view, kCount>& patterns) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment.variables()) {
    const std::string_view candidate = name;
    if (std::any_of(patterns.begin(), patterns.end(),
                    [&](std::string_view pattern) { return matches(pattern, candidate); })) {
      names.push_back(name);
    }
  }
  return names;
}

/// Collects variables from the strongest origin to the weakest; the first one wins.
class Collector {
 public:
  explicit Collector(EnvironmentPlan& plan) : plan_(plan) {}

  void add(PlannedVariable variable) {
    for (const PlannedVariable& stronger : plan_.all) {
      if (stronger.name == variable.name) return;
    }
    plan_.all.push_back(std::move(variable));
  }

 private:
  EnvironmentPlan& plan_;
};

PlannedVariable ours(std::string_view name, const std::string& value, std::string_view why) {
  return {std::string(name), value, "hvdrun", std::string(why), false};
}

/// What a rank forked here must know; the tasks of a step find it out themselves.
void add_identity(const RankPlacement& rank, const Placement& placement,
                  std::vector<PlannedVariable>& variables) {
  namespace env = launch_env;
  variables.push_back(ours(env::kRank, std::to_string(rank.rank), "rank of the job"));
  variables.push_back(ours(env::kLocalRank, std::to_string(rank.local_rank), "rank on its node"));
  variables.push_back(ours(env::kLocalSize, std::to_string(rank.local_size), "ranks on its node"));
  variables.push_back(ours(env::kNode, std::to_string(rank.node), "its node"));
  if (placement.virtual_nodes > 1) {
    variables.push_back(
        ours(env::kVirtualNode, std::to_string(rank.node), "--nodes: shares memory in it alone"));
  }
}

void add_job(const Placement& placement, const JobFacts& job, Collector& collector) {
  namespace env = launch_env;
  if (placement.way == Way::kLocal) {
    collector.add(ours(env::kSize, std::to_string(placement.size), "ranks of the job"));
  }
  if (!job.store.empty()) collector.add(ours(env::kStore, job.store, "where the ranks meet"));
  if (!job.key.empty()) {
    PlannedVariable key = ours(env::kJobKey, job.key, "keeps strangers out");
    key.is_secret = true;
    collector.add(std::move(key));
  }
  if (!job.marker.empty()) {
    collector.add(ours(env::kJobMarker, job.marker, "by it nothing is left behind"));
  }
}

}  // namespace

EnvironmentPlan plan_environment(const RunOptions& options, const Allocation& allocation,
                                 const Placement& placement,
                                 const std::vector<OfferedVariable>& offered, const JobFacts& job) {
  const Environment& user = allocation.environment;
  EnvironmentPlan plan;
  Collector collector(plan);
  add_job(placement, job, collector);
  for (const VariableOption& variable : options.variables) {
    const auto value = variable.value ? variable.value : user.get(variable.name);
    if (value) collector.add({variable.name, *value, "command line", "-x", false});
  }
  const auto offer = [&](const OfferedVariable& variable) {
    if (const auto value = user.get(variable.name)) {
      collector.add(
          {variable.name, *value, "user environment", "instead of " + variable.origin, false});
    } else {
      collector.add({variable.name, variable.value, variable.origin, variable.why, false});
    }
  };
  for (const OfferedVariable& variable : offered) offer(variable);
  if (placement.way != Way::kSlurmShell) {
    offer({"PYTHONUNBUFFERED", "1", "default", "output appears when it is printed"});
    const int threads = options.cpus_per_rank.value_or(
        placement.ranks.empty() ? 1 : placement.ranks.front().cpu_count);
    offer({"OMP_NUM_THREADS", std::to_string(threads), "default", "CPUs per rank"});
  }
  if (placement.way == Way::kLocal) plan.cleared = inherited_of(user, kReplaced);
  if (placement.way == Way::kSlurmShell) {
    collector.add(ours(kStepRequest, "1", "task 0 tells the id of its step"));
  }
  if (placement.way == Way::kTask && user.has(kStepRequest)) {
    plan.cleared.emplace_back(kStepRequest);
  }
  if (placement.way == Way::kSlurmShell) plan.cleared = inherited_of(user, kReplacedForSrun);
  for (const RankPlacement& rank : placement.ranks) {
    std::vector<PlannedVariable> variables;
    if (placement.way == Way::kLocal) add_identity(rank, placement, variables);
    if (rank.gpu) {
      variables.push_back(ours(launch_env::kLocalDevice, std::to_string(*rank.gpu),
                               "its entry of the visible GPUs"));
    }
    plan.each_rank.push_back(std::move(variables));
  }
  return plan;
}

std::vector<std::string> rank_environment(const EnvironmentPlan& plan, const Environment& inherited,
                                          std::size_t index) {
  Environment result = inherited;
  for (const std::string& name : plan.cleared) result.unset(name);
  for (const PlannedVariable& variable : plan.all) result.set(variable.name, variable.value);
  if (index < plan.each_rank.size()) {
    for (const PlannedVariable& variable : plan.each_rank[index]) {
      result.set(variable.name, variable.value);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : result.variables()) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace hvd
