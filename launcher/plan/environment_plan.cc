// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/environment_plan.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/plan/master_mark.h"
#include "launcher/site/secret.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// Beside what topology/launch_source.h has: what an outer launcher says more of its ranks, and
/// what an outer hvdrun says of its GPUs; ours are others. A '*' ends a prefix.
constexpr std::array<std::string_view, 15> kReplaced{"SLURM_STEP_*",
                                                     "SLURM_STEPID",
                                                     "SLURM_GTIDS",
                                                     "SLURM_TASK_PID",
                                                     "SLURM_CPU_BIND*",
                                                     "PMIX_*",
                                                     "PMI_*",
                                                     "PALS_*",
                                                     "OMPI_COMM_WORLD_*",
                                                     "OMPI_MCA_orte_*",
                                                     "FLUX_TASK_*",
                                                     launch_env::kLocalDevice,
                                                     launch_env::kGpuId,
                                                     launch_env::kProcess,
                                                     launch_env::kVirtualNode};

constexpr std::string_view kThreads = "OMP_NUM_THREADS";

/// What srun must not inherit from an outer `srun --pty`.
constexpr std::array<std::string_view, 3> kReplacedForSrun{"SLURM_CPU_BIND*", "PMIX_*", "PMI_*"};

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with("*")) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return matches(pattern, name); });
}

/// A variable by which a launcher other than hvdrun tells who its ranks are.
bool is_of_launcher(std::string_view name) {
  return std::any_of(kLaunchSources.begin(), kLaunchSources.end(), [&](const LaunchSource& source) {
    return source.layer != LauncherLayer::kHvdrun && is_one_of(name, source.variables());
  });
}

template <typename Test>
std::vector<std::string> inherited(const Environment& environment, Test is_wanted) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment.variables()) {
    if (is_wanted(name)) names.push_back(name);
  }
  return names;
}

using Variables = std::vector<PlannedVariable>;

bool names(const Variables& variables, std::string_view name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&](const PlannedVariable& variable) { return variable.name == name; });
}

/// Variables are added from the strongest origin to the weakest; the first one wins.
void add(PlannedVariable variable, Variables& variables) {
  variable.is_secret = variable.is_secret || is_secret(variable.name, variable.value);
  const auto winner =
      std::find_if(variables.begin(), variables.end(),
                   [&](const PlannedVariable& other) { return other.name == variable.name; });
  if (winner == variables.end()) return variables.push_back(std::move(variable));
  winner->overridden.push_back({std::move(variable.value), std::move(variable.origin)});
}

/// Adds what a site, a fabric or hvdrun would like; the user's own value is stronger.
void offer(PlannedVariable variable, const Environment& user, Variables& variables) {
  auto value = user.get(variable.name);
  if (value && !names(variables, variable.name)) {
    const bool secret = is_secret(variable.name, *value);
    variables.push_back({variable.name, *std::move(value), "user environment",
                         "instead of " + variable.origin, secret});
  }
  add(std::move(variable), variables);
}

PlannedVariable ours(std::string_view name, const std::string& value, std::string_view why) {
  return {std::string(name), value, "hvdrun", std::string(why), false};
}

void add_virtual_node(const RankPlacement& rank, const Placement& placement, Variables& variables) {
  if (placement.virtual_nodes == 1) return;
  variables.push_back(ours(launch_env::kVirtualNode, std::to_string(rank.node),
                           "--nodes: shares memory in it alone"));
}

/// Of an elastic job: by this number the process asks for its rank.
void add_process(const RankPlacement& rank, Variables& variables) {
  variables.push_back(ours(launch_env::kProcess, std::to_string(rank.rank),
                           "its number, by which it asks for its rank"));
}

/// What a process forked here must know; a spare has no rank yet.
void add_identity(const RankPlacement& rank, const Placement& placement, Variables& variables) {
  namespace env = launch_env;
  if (!placement.is_spare(rank)) {
    // Of the tasks on a node some may be spares.
    const int local_size = std::min(rank.local_size, placement.size);
    const int local_rank = std::min(rank.local_rank, local_size - 1);
    variables.push_back(ours(env::kRank, std::to_string(rank.rank), "rank of the job"));
    variables.push_back(ours(env::kLocalRank, std::to_string(local_rank), "rank on its node"));
    variables.push_back(ours(env::kLocalSize, std::to_string(local_size), "ranks on its node"));
    variables.push_back(ours(env::kNode, std::to_string(rank.node), "its node"));
  }
  add_virtual_node(rank, placement, variables);
  if (placement.elastic) add_process(rank, variables);
}

/// True where hvdrun says who its processes are: those that it forks. The tasks of a step find it
/// out themselves, except where one may get the rank of another.
bool names_ranks(const Allocation& allocation, const Placement& placement) {
  return allocation.local() != nullptr || (allocation.task() != nullptr && placement.elastic);
}

/// True where a node has more ranks than GPUs that each of them sees, and has any.
bool sees_few_gpus(const RankPlacement& rank, const Placement& placement, bool one_gpu) {
  const int seen = one_gpu && rank.gpu ? 1 : placement.gpus_per_node;
  return seen > 0 && seen < rank.local_size;
}

/// Who the rank is by the names that torchrun gives: torch.distributed, Accelerate and others read
/// them. What the user typed or exported for the ranks stands.
void offer_torch_identity(const RankPlacement& rank, const Placement& placement, bool one_gpu,
                          bool is_task, const Environment& user, const std::string& step,
                          const Variables& shared, Variables& variables) {
  if (placement.is_spare(rank)) return;
  const auto is_given = [&](std::string_view name) {
    return names(shared, name) || (is_task && user.has(name));
  };
  const auto offer_number = [&](std::string_view name, int number, std::string_view why) {
    if (number < 0 || is_given(name)) return;
    variables.push_back({std::string(name), std::to_string(number), "default",
                         std::string(why) + ", for torch.distributed", false});
  };
  // What the user says of the place and does not fit would contradict the rest.
  const auto fits = [&](std::string_view name, int number) {
    const auto given = user.get(name);
    return !is_task || !given || !placement.knows_places || *given == std::to_string(number);
  };
  if (!fits("LOCAL_RANK", rank.local_rank) || !fits("LOCAL_WORLD_SIZE", rank.local_size)) return;
  if (placement.size > 0 && !is_given("RANK") && !is_given("WORLD_SIZE")) {
    offer_number("RANK", rank.rank, "rank of the job");
    offer_number("WORLD_SIZE", placement.size, "ranks of the job");
    // Steps and jobs that a task starts inherit them, and have identities of their own.
    if (is_task) {
      variables.push_back(
          ours(launch_env::kRankOf, mark_rank(step, rank.rank), "whose RANK it is"));
    }
  }
  // It chooses the GPU in scripts for torchrun, whose ranks see all of their node.
  if (!placement.knows_places || sees_few_gpus(rank, placement, one_gpu)) return;
  offer_number("LOCAL_RANK", rank.local_rank, "rank on its node");
  offer_number("LOCAL_WORLD_SIZE", rank.local_size, "ranks on its node");
}

/// Where torch.distributed's ranks meet on this machine.
void offer_local_master(const JobFacts& job, const Environment& user, Variables& variables) {
  if (job.master_port.empty()) return;
  const std::string why = "for torch.distributed";
  offer({std::string(kMasterAddress), "127.0.0.1", "default", "this machine, " + why, false}, user,
        variables);
  offer({std::string(kMasterPort), job.master_port, "default", "a free port, " + why, false}, user,
        variables);
}

/// The variable whose list names the GPUs that a rank sees.
std::string visible_variable(const RankPlacement& rank, const Placement& placement) {
  if (!placement.gpu_variable.empty()) return placement.gpu_variable;
  if (rank.gpu_on_node < 0) return "CUDA_VISIBLE_DEVICES";
  switch (placement.topology.gpus[static_cast<std::size_t>(rank.gpu_on_node)].vendor) {
    case GpuVendor::kAmd:
      return "ROCR_VISIBLE_DEVICES";
    case GpuVendor::kIntel:
      return "ZE_AFFINITY_MASK";
    case GpuVendor::kNvidia:
      break;
  }
  return "CUDA_VISIBLE_DEVICES";
}

void add_gpu(const RunOptions& options, const RankPlacement& rank, const Placement& placement,
             Variables& variables) {
  namespace env = launch_env;
  const bool one = options.gpu_visibility == GpuVisibility::kOne;
  variables.push_back(ours(env::kLocalDevice, std::to_string(one ? 0 : *rank.gpu),
                           "its entry of the visible GPUs"));
  if (!rank.gpu_id.empty()) {
    variables.push_back(ours(env::kGpuId, rank.gpu_id, "its GPU, so that no two ranks share it"));
  }
  if (!one) return;
  const std::string variable = visible_variable(rank, placement);
  variables.push_back(ours(variable, rank.gpu_entry, "--gpu-visibility one"));
  // HIP counts within what ROCr shows.
  if (variable == "ROCR_VISIBLE_DEVICES") {
    variables.push_back(ours("HIP_VISIBLE_DEVICES", "0", "--gpu-visibility one"));
  }
}

void add_job(const Allocation& allocation, const Placement& placement, const JobFacts& job,
             Variables& variables) {
  namespace env = launch_env;
  if (names_ranks(allocation, placement)) {
    add(ours(env::kSize, std::to_string(placement.size), "ranks of the job"), variables);
  }
  if (!job.store.empty()) add(ours(env::kStore, job.store, "where the ranks meet"), variables);
  if (!job.key.empty()) {
    PlannedVariable key = ours(env::kJobKey, job.key, "keeps strangers out");
    key.is_secret = true;
    add(std::move(key), variables);
  }
  if (!job.marker.empty()) {
    add(ours(env::kJobMarker, job.marker, "by it nothing is left behind"), variables);
  }
  if (!job.losses.empty()) {
    add(ours(env::kLossPipe, job.losses, "by it hvdrun knows which rank failed first"), variables);
  }
  if (placement.srun) {
    add(ours(kStepRequest, "0", "the process that task 0 is, which tells its step"), variables);
  }
}

void add_command_line(const RunOptions& options, const Environment& user, Variables& variables) {
  for (const VariableOption& variable : options.variables) {
    const auto inherited = user.get(variable.name);
    const auto value = variable.value ? variable.value : inherited;
    if (!value || names(variables, variable.name)) continue;
    add({variable.name, *value, "command line", "-x", false}, variables);
    if (inherited && *inherited != *value) {
      PlannedVariable& added = variables.back();
      added.is_secret = added.is_secret || is_secret(variable.name, *inherited);
      added.overridden.push_back({*inherited, "user environment"});
    }
  }
}

bool counts_cuda_devices(const Placement& placement) {
  const RankPlacement& rank = placement.ranks.front();
  return rank.gpu && visible_variable(rank, placement) == "CUDA_VISIBLE_DEVICES";
}

/// What hvdrun wants where neither the user nor the machine says anything.
void offer_defaults(const Environment& user, const Placement& placement, EnvironmentPlan& plan) {
  Variables& shared = placement.srun ? plan.by_task : plan.all;
  offer({"PYTHONUNBUFFERED", "1", "default", "output appears when it is printed", false}, user,
        shared);
  if (names(shared, kThreads) || placement.ranks.empty()) return;
  if (counts_cuda_devices(placement)) {
    offer({"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "default",
           "CUDA counts GPUs as Slurm and the bus do, not fastest first", false},
          user, shared);
  }
  const auto threads = [](const RankPlacement& rank) {
    return PlannedVariable{std::string(kThreads), std::to_string(rank.threads), "default",
                           "cores of the rank", false};
  };
  const RankPlacement& first = placement.ranks.front();
  const bool alike =
      std::all_of(placement.ranks.begin(), placement.ranks.end(),
                  [&](const RankPlacement& rank) { return rank.threads == first.threads; });
  if (alike || user.has(kThreads)) return offer(threads(first), user, shared);
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    add(threads(placement.ranks[i]), plan.each_rank[i]);
  }
  for (Variables& variables : plan.each_spare) add(threads(first), variables);
}

std::vector<std::string> cleared_variables(const Allocation& allocation,
                                           const Placement& placement) {
  const Environment& user = allocation.environment;
  return inherited(user, [&](std::string_view name) {
    if (allocation.task() != nullptr && name == kStepRequest) return true;
    if (names_ranks(allocation, placement)) {
      return is_of_launcher(name) || is_one_of(name, kReplaced);
    }
    return allocation.srun() != nullptr && is_one_of(name, kReplacedForSrun);
  });
}

/// The name of the step whose tasks the ranks are, or the marker of the hvdrun that forked this
/// rank; empty: there is none yet.
std::string step_of_ranks(const Allocation& allocation) {
  if (allocation.task() == nullptr) return {};
  const std::string step = slurm_step_name(allocation.environment);
  return step.empty() ? allocation.environment.get(launch_env::kJobMarker).value_or("") : step;
}

/// `plan` holds the command line's variables already, and none of the machine's.
void offer_machine(const MachineEnvironment& machine, const Environment& user, bool by_srun,
                   EnvironmentPlan& plan) {
  // Where the user says which interfaces there are, those of the site do not come before them.
  const bool says_interfaces = names(plan.all, launch_env::kInterface) ||
                               !user.get(launch_env::kInterface).value_or("").empty();
  // srun takes none of them: the hvdrun in each task sets them, and can say where they are from.
  plan.unset = machine.unset;
  for (const PlannedVariable& variable : machine.offered) {
    // Except for options of srun's.
    const bool later = by_srun && !variable.name.starts_with("SLURM_");
    if (says_interfaces && variable.name == launch_env::kBootstrapInterface) {
      plan.unset.push_back({variable.name, variable.value, variable.origin,
                            "HVD_INTERFACE is set: it counts at the start, too",
                            variable.provenance});
    } else if (later && names(plan.all, variable.name)) {
      add(variable, plan.all);
    } else {
      offer(variable, user, later ? plan.by_task : plan.all);
    }
  }
}

}  // namespace

EnvironmentPlan plan_environment(const RunOptions& options, const Allocation& allocation,
                                 const MachineEnvironment& machine, const Placement& placement,
                                 const JobFacts& job) {
  Environment user = allocation.environment;
  const std::string step = step_of_ranks(allocation);
  EnvironmentPlan plan;
  plan.cleared = cleared_variables(allocation, placement);
  const std::vector<std::string> left_over = marked_for_other_steps(user, step);
  for (const std::string& name : left_over) user.unset(name);
  for (const RankPlacement& rank : placement.ranks) {
    Variables variables;
    if (names_ranks(allocation, placement)) add_identity(rank, placement, variables);
    if (rank.gpu) add_gpu(options, rank, placement, variables);
    plan.each_rank.push_back(std::move(variables));
  }
  if (placement.elastic) {
    for (const RankPlacement& spare : placement.elastic->spares) {
      Variables& variables = plan.each_spare.emplace_back();
      add_virtual_node(spare, placement, variables);
      add_process(spare, variables);
    }
  }
  add_job(allocation, placement, job, plan.all);
  add_command_line(options, user, plan.all);
  offer_machine(machine, user, placement.srun.has_value(), plan);
  offer_local_master(job, user, plan.all);
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    offer_torch_identity(placement.ranks[i], placement,
                         options.gpu_visibility == GpuVisibility::kOne,
                         allocation.task() != nullptr, user, step, plan.all, plan.each_rank[i]);
  }
  // Jobs that this one starts inside its ranks need a port of their own.
  const std::string mark = mark_masters(plan.all, user, step.empty() ? job.marker : step);
  if (!mark.empty()) {
    add(ours(launch_env::kMasterOf, mark, "whose MASTER_ADDR and MASTER_PORT these are"), plan.all);
  }
  for (const std::string& name : left_over) {
    if (!names(plan.all, name)) plan.cleared.push_back(name);
  }
  offer_defaults(user, placement, plan);
  return plan;
}

std::vector<std::string> rank_environment(const EnvironmentPlan& plan, const Environment& inherited,
                                          const std::vector<PlannedVariable>& own) {
  Environment result = inherited;
  for (const std::string& name : plan.cleared) result.unset(name);
  for (const PlannedVariable& variable : plan.all) result.set(variable.name, variable.value);
  for (const PlannedVariable& variable : own) result.set(variable.name, variable.value);
  std::vector<std::string> lines;
  for (const auto& [name, value] : result.variables()) {
    lines.push_back(format_text("{}={}", name, value));
  }
  return lines;
}

}  // namespace hvd
