// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/placement.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <variant>

#include "base/overloaded.h"
#include "launcher/plan/rank_resources.h"
#include "launcher/plan/slurm_job.h"
#include "topology/gpu_list.h"
#include "topology/identity.h"

#include "base/rounding.h"

namespace hvd {
namespace {

constexpr int kMaxCount = 65536;
constexpr int kMaxTasks = 1 << 24;

/// Nodes of the job that made this process a rank. mpirun does not say them: at least those that
/// its ranks need, or those of the step of its daemons.
int nodes_of(const Identity& identity, int hosts) {
  if (identity.node_count > 0) return identity.node_count;
  if (identity.local_size <= 0 || identity.size <= 0) return hosts;
  if (identity.size == identity.local_size) return 1;
  return std::max(hosts, divide_up(identity.size, identity.local_size));
}

/// The flag by which the user asks for an elastic job; empty: it is none.
std::string_view elastic_flag(const RunOptions& options) {
  if (options.spares > 0) return "--spares";
  if (options.min_ranks) return "--min-np";
  if (options.max_ranks) return "--max-np";
  if (!options.host_discovery.empty()) return "--host-discovery-script";
  return options.restarts > 0 ? "--restarts" : "";
}

bool asks_for_elasticity(const RunOptions& options) { return !elastic_flag(options).empty(); }

/// What the user says of an elastic job of so many ranks.
Result<Elasticity> plan_elasticity(const RunOptions& options, int size) {
  Elasticity elastic;
  elastic.spare_count = options.spares;
  elastic.restarts = options.restarts;
  elastic.min_size = options.min_ranks.value_or(options.ranks.value_or(size));
  elastic.max_size = std::max(options.max_ranks.value_or(size), size);
  if (elastic.min_size > size) {
    return error(Code::kInvalidArgument, "--min-np {} is more than the {} rank{} of the job",
                 elastic.min_size, size, size == 1 ? "" : "s");
  }
  if (options.max_ranks && *options.max_ranks < size) {
    return error(Code::kInvalidArgument, "--max-np {} is less than the {} rank{} of the job",
                 *options.max_ranks, size, size == 1 ? "" : "s");
  }
  return elastic;
}

/// Of `processes` that there are, some are spares. The job has as many ranks as remain.
Result<Elasticity> divide_processes(const RunOptions& options, Placement& placement) {
  if (options.spares >= placement.size) {
    return error(Code::kInvalidArgument,
                 "--spares {} leaves no rank: the job has {} task{}, and spares are some of them",
                 options.spares, placement.size, placement.size == 1 ? "" : "s");
  }
  placement.size -= options.spares;
  return plan_elasticity(options, placement.size);
}

/// A task of the step that hvdrun has started for an elastic job. Ranks that another program starts
/// are not hvdrun's to replace. `first`: the process that task 0 is.
Status plan_task_of_elastic(const RunOptions& options, const Allocation& allocation, int first,
                            Placement& placement) {
  if (!asks_for_elasticity(options)) return Status::ok();
  if (!allocation.environment.has(kStepRequest)) {
    return error(Code::kInvalidArgument,
                 "{0} is for ranks that hvdrun starts itself: type `hvdrun {0} N PROGRAM` in the "
                 "batch script, without srun or mpirun, or `hvdrun -np N {0} N PROGRAM` on one "
                 "machine",
                 elastic_flag(options));
  }
  if (first > 0) {
    // Of a step that came later: a newcomer, behind all that were there.
    placement.size = first;
    placement.elastic = Elasticity{};
    return Status::ok();
  }
  HVD_TRY_ASSIGN(placement.elastic, divide_processes(options, placement));
  return Status::ok();
}

Result<Placement> place_task(const RunOptions& options, const Allocation& allocation,
                             const Identity& identity) {
  Placement placement;
  placement.reports_bindings = options.bind.report;
  placement.size = identity.size;
  HVD_TRY_ASSIGN(const auto first, allocation.environment.get_int(kStepRequest, 0, kMaxTasks));
  const int first_process = static_cast<int>(first.value_or(0));
  HVD_TRY(plan_task_of_elastic(options, allocation, first_process, placement));
  placement.node_count = nodes_of(identity, static_cast<int>(allocation.hosts.size()));
  placement.this_host = allocation.host;
  placement.hosts = allocation.hosts;
  if (options.nodes) {
    return error(
        Code::kInvalidArgument,
        "--nodes {} is for `hvdrun -np N` and `hvdrun PROGRAM` in a batch shell: this process "
        "is rank {} already (by {}), and what started it has chosen the nodes",
        *options.nodes, identity.rank, identity.source);
  }
  RankPlacement rank;
  rank.rank = (placement.elastic ? first_process : 0) + identity.rank;
  rank.node = std::max(0, identity.node);
  rank.host = allocation.host;
  placement.notes.push_back("identity: " + describe_identity(identity));
  placement.knows_places = identity.local_rank >= 0 && identity.local_size > 0;
  if (placement.knows_places) {
    rank.local_rank = identity.local_rank;
    rank.local_size = identity.local_size;
  }
  placement.ranks = {rank};
  HVD_TRY_ASSIGN(const VisibleGpus gpus,
                 visible_gpus(environment_of_ranks(options, allocation.environment),
                              allocation.gpus_on_machine));
  if (!placement.knows_places) {
    placement.notes.emplace_back("GPU and CPUs: left alone, the place on the node is unknown");
    return placement;
  }
  // A spare learns its GPU with its rank.
  const VisibleGpus& seen = placement.is_spare(rank) ? VisibleGpus{} : gpus;
  HVD_TRY(give_resources(options, allocation, seen, rank.local_size, placement));
  return placement;
}

/// Splits the ranks over the virtual nodes in blocks; the first nodes may have one more.
void split_over_nodes(const Allocation& allocation, Placement& placement) {
  for (int node = 0; node < placement.virtual_nodes; ++node) {
    const int local_size = placement.size / placement.virtual_nodes +
                           (node < placement.size % placement.virtual_nodes ? 1 : 0);
    for (int local = 0; local < local_size; ++local) {
      RankPlacement rank;
      rank.rank = static_cast<int>(placement.ranks.size());
      rank.local_rank = local;
      rank.local_size = local_size;
      rank.node = node;
      rank.host = placement.virtual_nodes == 1 ? allocation.host
                                               : format_text("{}/node{}", allocation.host, node);
      placement.ranks.push_back(std::move(rank));
    }
    placement.hosts.push_back(allocation.host);
  }
}

/// -np in the shell of a job of several nodes, where srun over all of them was meant most often;
/// empty: nothing is to be said. `--nodes` is the word of one who means this machine, and the ranks
/// of a rank (of mpirun, of another hvdrun) are its own.
std::string left_nodes(const RunOptions& options, const Allocation& allocation,
                       const LocalLaunch& launch) {
  if (options.ranks.value_or(1) < 2 || options.nodes) return "";
  if (has_other_nodes(launch.other)) {
    return format_text(
        "-np: all {} ranks start on this machine ({}), which is in {}: start the ranks of all its "
        "nodes with `{}`, or add --nodes 1 if this machine is meant",
        *options.ranks, allocation.host, describe_other_job(*launch.other), launch.other->command);
  }
  if (!in_slurm_shell(allocation.environment)) return "";
  const auto identity = derive_identity(allocation.environment);
  if (identity.is_ok() && identity.value()) return "";
  const auto job = read_slurm_job(allocation.environment);
  if (!job.is_ok() || job.value().hosts.size() < 2) return "";
  return format_text(
      "-np: all {} ranks start on this machine ({}), and the job has {} nodes: leave -np out to "
      "start its tasks on all of them, or add --nodes 1 if this machine is meant",
      *options.ranks, allocation.host, job.value().hosts.size());
}

/// -np in a rank of several: each of them would start a world of its own, which nobody means who
/// does not say so.
Status refuse_worlds_in_ranks(const RunOptions& options, const LocalLaunch& launch) {
  const auto& around = launch.around;
  if (!around || around->size < 2 || !options.ranks || options.nested) return Status::ok();
  const std::string_view remedy = around->source == "Slurm step"
                                      ? "leave -np out and let srun start every rank (srun "
                                        "--ntasks-per-node=N hvdrun PROGRAM), "
                                        "or type `hvdrun PROGRAM` without srun in the batch shell"
                                      : "leave -np out: `hvdrun PROGRAM` becomes this rank";
  return error(
      Code::kInvalidArgument,
      "-np {0}: this process is rank {1} of {2} already (by {3}), and each of the {2} would "
      "start a job of {0} ranks of its own; {4}; or add --nested if separate jobs are meant",
      *options.ranks, around->rank, around->size, around->source, remedy);
}

/// In the job of another scheduler, the ranks of one node are hardly what was meant.
Status refuse_one_node_of_many(const RunOptions& options, const LocalLaunch& launch,
                               const std::string& host) {
  if (options.ranks || options.nodes || !has_other_nodes(launch.other)) return Status::ok();
  return error(Code::kInvalidArgument,
               "this is {}, and hvdrun starts ranks on other nodes by Slurm alone: type `{}`, and "
               "hvdrun becomes each rank; or `hvdrun -np N PROGRAM` for ranks on this machine ({}) "
               "alone",
               describe_other_job(*launch.other), launch.other->command, host);
}

Status refuse_hidden_gpus(const RunOptions& options) {
  // Where ranks are only lost nobody comes anew.
  const std::string_view flag = elastic_flag(options);
  const bool has_newcomers = flag != "--min-np" || options.max_ranks || options.restarts > 0 ||
                             !options.host_discovery.empty();
  if (!has_newcomers || options.gpu_visibility != GpuVisibility::kOne) return Status::ok();
  return error(Code::kInvalidArgument,
               "{} does not go with --gpu-visibility one: who comes anew learns its GPU when it "
               "takes a rank's place, and so must see all of them",
               flag);
}

std::string describe_elasticity(const Elasticity& elastic) {
  return format_text("losses: the job goes on with {} to {} ranks; {} spare{}, {} restart{}",
                     elastic.min_size, elastic.max_size, elastic.spare_count,
                     elastic.spare_count == 1 ? "" : "s", elastic.restarts,
                     elastic.restarts == 1 ? "" : "s");
}

/// Ranks that come later have places, and resources of their own, from the start.
Status check_growth(const RunOptions& options, const Placement& placement) {
  if (!options.host_discovery.empty() && options.spares > 0) {
    return error(Code::kInvalidArgument,
                 "--spares does not go with --host-discovery-script, which says how many processes "
                 "there are: leave one of them out");
  }
  if (options.host_discovery.empty() || placement.virtual_nodes == 1) return Status::ok();
  return error(Code::kInvalidArgument,
               "--host-discovery-script does not go with --nodes {}: a job on virtual nodes keeps "
               "its size",
               placement.virtual_nodes);
}

/// Spares and the least number of ranks, where hvdrun itself starts the ranks.
Status plan_losses(const RunOptions& options, const Allocation& allocation, Placement& placement) {
  if (!asks_for_elasticity(options)) return Status::ok();
  HVD_TRY_ASSIGN(const Elasticity elastic, plan_elasticity(options, placement.size));
  placement.elastic = elastic;
  if (!allocation.slots && elastic.max_size > placement.size) {
    placement.elastic->max_size = placement.size;
    placement.warnings.push_back(
        format_text("--max-np {}: nothing says when there is room for more than {} rank{}; "
                    "--host-discovery-script does on this machine, and in a job of Slurm its nodes",
                    elastic.max_size, placement.size, placement.size == 1 ? "" : "s"));
  }
  HVD_TRY(refuse_hidden_gpus(options));
  HVD_TRY(check_growth(options, placement));
  for (int spare = 0; spare < options.spares; ++spare) {
    RankPlacement process;
    process.rank = placement.size + spare;
    process.node = spare % placement.virtual_nodes;
    process.host = placement.virtual_nodes == 1
                       ? placement.this_host
                       : format_text("{}/node{}", placement.this_host, process.node);
    placement.elastic->spares.push_back(std::move(process));
  }
  placement.notes.push_back(describe_elasticity(*placement.elastic));
  return Status::ok();
}

/// How many ranks start here.
int choose_size(const RunOptions& options, const Allocation& allocation, int gpu_count,
                Placement& placement) {
  if (allocation.slots) {
    const int most =
        options.max_ranks.value_or(std::max(options.ranks.value_or(1), allocation.slots->slots));
    placement.notes.push_back(
        format_text("ranks: --host-discovery-script gives {} slots here", allocation.slots->slots));
    if (!allocation.slots->others.empty()) {
      placement.warnings.push_back("--host-discovery-script: " +
                                   describe_others(*allocation.slots));
    }
    return std::clamp(allocation.slots->slots, 1, std::max(most, 1));
  }
  if (options.ranks) return *options.ranks;
  placement.notes.push_back(
      gpu_count == 0
          ? "ranks: 1, since there is no GPU; -np N for more"
          : format_text("ranks: {}, one per visible GPU; -np N for more or fewer", gpu_count));
  return std::max(1, gpu_count);
}

/// Of the places the first `size` are those of the ranks that start.
void hold_back_places(int size, Placement& placement) {
  const auto first = placement.ranks.begin() + size;
  placement.elastic->reserve.assign(std::make_move_iterator(first),
                                    std::make_move_iterator(placement.ranks.end()));
  placement.ranks.erase(first, placement.ranks.end());
  placement.size = size;
  if (placement.elastic->reserve.empty()) return;
  for (RankPlacement& rank : placement.ranks) rank.local_size = size;
}

Result<Placement> place_locally(const RunOptions& options, const Allocation& allocation,
                                const LocalLaunch& launch) {
  HVD_TRY(refuse_worlds_in_ranks(options, launch));
  HVD_TRY(refuse_one_node_of_many(options, launch, allocation.host));
  Placement placement;
  placement.reports_bindings = options.bind.report;
  placement.this_host = allocation.host;
  HVD_TRY_ASSIGN(VisibleGpus gpus,
                 visible_gpus(environment_of_ranks(options, allocation.environment),
                              allocation.gpus_on_machine));
  gpus.is_private = false;  // All the ranks that start here share what this process was given.
  const int gpu_count = static_cast<int>(gpus.entries.size());
  const int size = choose_size(options, allocation, gpu_count, placement);
  placement.size = size;
  placement.virtual_nodes = options.nodes.value_or(1);
  placement.node_count = placement.virtual_nodes;
  if (placement.virtual_nodes > placement.size) {
    return error(Code::kInvalidArgument,
                 "--nodes {} is more than -np {}: every virtual node needs a rank",
                 placement.virtual_nodes, placement.size);
  }
  HVD_TRY(plan_losses(options, allocation, placement));
  if (placement.elastic) placement.size = placement.elastic->max_size;
  split_over_nodes(allocation, placement);
  const std::string left = left_nodes(options, allocation, launch);
  if (!left.empty()) placement.warnings.push_back(left);
  const Status given = give_resources(options, allocation, gpus, placement.size, placement);
  if (!given.is_ok() && !left.empty()) return Status(given.code(), given.message() + "; " + left);
  HVD_TRY(given);
  if (placement.elastic) hold_back_places(size, placement);
  return placement;
}

/// Decides how many tasks srun starts, and whether it must be told.
Status count_tasks(const RunOptions& options, const Allocation& allocation, SrunStep& step,
                   Placement& placement) {
  const Environment& environment = allocation.environment;
  HVD_TRY_ASSIGN(const auto tasks, environment.get_int("SLURM_NTASKS", 1, kMaxTasks));
  HVD_TRY_ASSIGN(const auto on_each, environment.get_int("SLURM_NTASKS_PER_NODE", 1, kMaxCount));
  if (!tasks && !on_each) {
    step.says_size = true;
    placement.size = placement.node_count * std::max(1, placement.gpus_per_node);
    placement.notes.emplace_back(
        placement.gpus_per_node > 0 ? "ranks: one per GPU, since the job says no number of tasks"
                                    : "ranks: one per node, since the job says no number of tasks");
    return Status::ok();
  }
  step.says_size = options.nodes.has_value();
  if (step.ranks_per_node.size() == allocation.hosts.size()) {
    // On fewer nodes than the job has, its number of tasks is not ours.
    step.ranks_per_node.resize(static_cast<std::size_t>(placement.node_count));
    placement.size = std::accumulate(step.ranks_per_node.begin(), step.ranks_per_node.end(), 0);
    if (options.nodes || !tasks || placement.size == *tasks) return Status::ok();
  }
  step.ranks_per_node.clear();
  placement.size = static_cast<int>(tasks.value_or(on_each.value_or(1) * placement.node_count));
  return Status::ok();
}

/// One step over all parts of a heterogeneous job: what each part was asked for stands.
Result<Placement> place_over_parts(const RunOptions& options, const Allocation& allocation,
                                   const SrunLaunch& launch) {
  if (asks_for_elasticity(options)) {
    return error(Code::kInvalidArgument,
                 "{} is not for a heterogeneous job: a process of one part cannot take a rank of "
                 "another; leave it out, or ask Slurm for one part",
                 elastic_flag(options));
  }
  if (options.nodes) {
    return error(Code::kInvalidArgument,
                 "--nodes cannot divide a heterogeneous job of {} parts; choose parts with `srun "
                 "--het-group=0 hvdrun PROGRAM`",
                 launch.job_parts);
  }
  Placement placement;
  placement.this_host = allocation.host;
  placement.hosts = allocation.hosts;
  placement.node_count = static_cast<int>(allocation.hosts.size());
  placement.size = std::accumulate(launch.tasks_per_node.begin(), launch.tasks_per_node.end(), 0);
  placement.srun = SrunStep{.ranks_per_node = launch.tasks_per_node,
                            .job_parts = launch.job_parts,
                            .cpus_per_rank = options.cpus_per_rank.value_or(0)};
  placement.notes.push_back(
      format_text("in a heterogeneous Slurm job: one srun starts the ranks of all {} parts, hvdrun "
                  "in each",
                  launch.job_parts));
  return placement;
}

Result<Placement> place_by_srun(const RunOptions& options, const Allocation& allocation,
                                const SrunLaunch& launch) {
  if (launch.job_parts > 1) return place_over_parts(options, allocation, launch);
  const Environment& environment = allocation.environment;
  Placement placement;
  placement.reports_bindings = options.bind.report;
  placement.this_host = allocation.host;
  placement.hosts = allocation.hosts;
  placement.node_count = options.nodes.value_or(static_cast<int>(allocation.hosts.size()));
  if (placement.node_count > static_cast<int>(allocation.hosts.size())) {
    return error(Code::kInvalidArgument,
                 "--nodes {0} is more than this allocation has: type --nodes {1} or less, or ask "
                 "Slurm for {0} nodes",
                 placement.node_count, allocation.hosts.size());
  }
  placement.hosts.resize(static_cast<std::size_t>(placement.node_count));
  HVD_TRY_ASSIGN(const auto gpus, environment.get_int("SLURM_GPUS_ON_NODE", 0, kMaxCount));
  placement.gpus_per_node = gpus ? static_cast<int>(*gpus) : 0;
  SrunStep step{.ranks_per_node = launch.tasks_per_node};
  HVD_TRY(count_tasks(options, allocation, step, placement));
  HVD_TRY_ASSIGN(const auto asked, asked_cpus(options, environment));
  step.cpus_per_rank = asked.value_or(0);
  placement.srun = std::move(step);
  placement.notes.emplace_back("in a Slurm allocation: srun starts the ranks, hvdrun in each");
  if (!asks_for_elasticity(options)) return placement;
  if (!options.host_discovery.empty()) {
    return error(Code::kInvalidArgument,
                 "--host-discovery-script is for ranks on this machine (-np N): in a job of Slurm "
                 "hvdrun sees itself which of its nodes are there; leave it out");
  }
  HVD_TRY(refuse_hidden_gpus(options));
  HVD_TRY_ASSIGN(placement.elastic, divide_processes(options, placement));
  placement.notes.push_back(describe_elasticity(*placement.elastic));
  return placement;
}

}  // namespace

Result<Placement> place(const RunOptions& options, const Allocation& allocation) {
  return std::visit(
      Overloaded{
          [&](const LocalLaunch& local) { return place_locally(options, allocation, local); },
          [&](const TaskLaunch& task) { return place_task(options, allocation, task.identity); },
          [&](const SrunLaunch& srun) { return place_by_srun(options, allocation, srun); }},
      allocation.launch);
}

}  // namespace hvd
