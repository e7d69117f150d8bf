// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/site/step_flags.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// The flags that the hvdrun in each task needs again.
void append_task_flags(const RunOptions& options, std::vector<std::string>& arguments) {
  // The values go by the environment: anybody on the node can read an argument.
  for (const VariableOption& variable : options.variables) {
    arguments.insert(arguments.end(), {"-x", variable.name});
  }
  for (std::string& flag : bind_flags(options.bind)) arguments.push_back(std::move(flag));
  if (options.gpu_visibility == GpuVisibility::kOne) {
    arguments.insert(arguments.end(), {"--gpu-visibility", "one"});
  }
  if (!options.site.empty()) arguments.insert(arguments.end(), {"--site", options.site});
  if (options.spares > 0) {
    arguments.insert(arguments.end(), {"--spares", std::to_string(options.spares)});
  }
  if (options.restarts > 0) {
    arguments.insert(arguments.end(), {"--restarts", std::to_string(options.restarts)});
  }
  if (options.min_ranks) {
    arguments.insert(arguments.end(), {"--min-np", std::to_string(*options.min_ranks)});
  }
  if (options.max_ranks) {
    arguments.insert(arguments.end(), {"--max-np", std::to_string(*options.max_ranks)});
  }
  if (options.assume) arguments.emplace_back("--assume");
  if (options.verbose) arguments.emplace_back("--verbose");
}

/// What the site wants of srun, except for what the user or hvdrun decides.
std::vector<std::string> flags_of_site(const RunOptions& options, const Placement& placement,
                                       const SiteConfig& site, const Environment& of_srun) {
  std::vector<std::string> flags = undecided_flags(
      site_step_flags(site, placement.node_count, placement.gpus_per_node > 0), of_srun);
  std::erase_if(flags, [&](const std::string& word) {
    const std::string_view name = flag_name(word);
    // hvdrun ends the job itself, after the grace; and its map is of the node's CPUs.
    return name == "--kill-on-bad-exit" || (placement.elastic && name == "--mpi") ||
           (name == "--cpu-bind" && options.bind.policy == BindPolicy::kMap);
  });
  return flags;
}

std::vector<std::string> srun_arguments(const RunOptions& options, const Placement& placement,
                                        std::vector<std::string> site_flags,
                                        const std::string& self) {
  std::vector<std::string> arguments{"srun", "--label", "--input=0", "--kill-on-bad-exit=0"};
  const SrunStep& step = *placement.srun;
  if (placement.elastic) {
    // The step outlives its nodes and tasks. A PMI or PMIx server would end it with a task.
    arguments.insert(arguments.end(), {"--no-kill", "--wait=0", "--mpi=none"});
  }
  if (step.job_parts > 1) {
    arguments.push_back(format_text("--het-group=0-{}", step.job_parts - 1));
  }
  if (options.nodes) arguments.push_back(format_text("--nodes={}", *options.nodes));
  if (step.says_size) arguments.push_back(format_text("--ntasks={}", placement.processes()));
  // From 22.05 on srun does not take it from the job any more.
  if (step.cpus_per_rank > 0) {
    arguments.push_back(format_text("--cpus-per-task={}", step.cpus_per_rank));
  }
  // The map is of the node's CPUs; a mask of Slurm's for each task would be in its way.
  if (options.bind.policy == BindPolicy::kMap) arguments.emplace_back("--cpu-bind=none");
  // No --gpu-bind=none but where the site wants it: with it and several tasks per node, Slurm 22.05
  // unsets CUDA_VISIBLE_DEVICES. A plain --gres shows every task all GPUs without it.
  for (std::string& flag : site_flags) arguments.push_back(std::move(flag));
  arguments.insert(arguments.end(), {self, "run"});
  append_task_flags(options, arguments);
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), options.command.begin(), options.command.end());
  return arguments;
}

/// The value of SLURM_EXPORT_ENV with which srun hands on what this hvdrun sets, too. With NONE,
/// which sbatch --export=NONE leaves in the job, its tasks would have none of it.
std::string exported(const std::string& asked, const EnvironmentPlan& plan) {
  const std::string padded = "," + asked + ",";
  if (asked.empty() || padded.find(",ALL,") != std::string::npos) return asked;
  std::string names = asked == "NONE" || asked == "NIL" ? "" : asked;
  for (const PlannedVariable& variable : plan.all) {
    names += (names.empty() ? "" : ",") + variable.name;
  }
  return names;
}

Command srun_command(const RunOptions& options, const Placement& placement,
                     const EnvironmentPlan& plan, const SiteConfig& site,
                     const Environment& environment, const std::string& self) {
  Command srun;
  srun.host = placement.this_host;
  Environment of_srun = environment;
  for (const std::string& name : plan.cleared) of_srun.unset(name);
  srun.arguments =
      srun_arguments(options, placement, flags_of_site(options, placement, site, of_srun), self);
  if (const auto asked = environment.get("SLURM_EXPORT_ENV")) {
    of_srun.set("SLURM_EXPORT_ENV", exported(*asked, plan));
  }
  srun.variables = rank_environment(plan, of_srun, {});
  srun.takes_stdin = true;
  return srun;
}

/// A variable that says which rank a process is, or what it has as such.
bool is_of_rank(std::string_view name) {
  namespace env = launch_env;
  constexpr std::array kOfRank{env::kRank,        env::kLocalRank, env::kLocalSize, env::kNode,
                               env::kLocalDevice, env::kGpuId,     env::kRankOf};
  return std::find(kOfRank.begin(), kOfRank.end(), name) != kOfRank.end() ||
         std::find(kTorchIdentity.begin(), kTorchIdentity.end(), name) != kTorchIdentity.end();
}

Command process_command(const RunOptions& options, const Placement& placement,
                        const RankPlacement& process, std::vector<std::string> variables) {
  Command command;
  command.rank = process.rank;
  command.is_spare = placement.is_spare(process);
  command.host = process.host;
  command.arguments = options.command;
  command.variables = std::move(variables);
  return command;
}

}  // namespace

std::string describe_command(const Command& command) {
  return command.rank ? format_text("rank {}", *command.rank) : command.arguments.front();
}

Command restarted(const Command& lost, int process) {
  Command again = lost;
  again.rank = process;
  again.is_spare = true;
  again.starts_later = false;
  again.takes_stdin = false;
  std::erase_if(again.variables, [](const std::string& variable) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    return name == launch_env::kProcess || is_of_rank(name);
  });
  again.variables.push_back(format_text("{}={}", launch_env::kProcess, process));
  return again;
}

Command later_srun(const Command& srun, const LaterStep& step) {
  Command later = srun;
  later.first_process = step.first_process;
  later.takes_stdin = false;
  // Of srun's own options, before the hvdrun of the tasks.
  const auto end = std::find(later.arguments.begin(), later.arguments.end(), "run");
  later.arguments.erase(std::remove_if(later.arguments.begin() + 1, end,
                                       [](const std::string& word) {
                                         const std::string_view name = flag_name(word);
                                         return name == "--nodes" || name == "--ntasks" ||
                                                name == "--input";
                                       }),
                        end);
  later.arguments.insert(
      later.arguments.begin() + 1,
      // The step before may still hold what the node has.
      {"--overlap", "--input=none", "--nodes=1", "--nodelist=" + step.host,
       format_text("--ntasks={}", step.tasks), format_text("--ntasks-per-node={}", step.tasks)});
  for (std::string& variable : later.variables) {
    if (!variable.starts_with(format_text("{}=", kStepRequest))) continue;
    variable = format_text("{}={}", kStepRequest, step.first_process);
  }
  return later;
}

std::size_t commands_to_start(const std::vector<Command>& commands) {
  return static_cast<std::size_t>(
      std::count_if(commands.begin(), commands.end(),
                    [](const Command& command) { return !command.starts_later; }));
}

const std::string& ranks_program(const Command& command) {
  if (command.rank) return command.program;
  // Of srun: what follows the options of the hvdrun in each task.
  const auto dashes = std::find(command.arguments.begin(), command.arguments.end(), "--");
  const bool has_program = command.arguments.end() - dashes > 1;
  return has_program ? *(dashes + 1) : command.program;
}

std::vector<Command> build_commands(const RunOptions& options, const Placement& placement,
                                    const EnvironmentPlan& plan, const SiteConfig& site,
                                    const Environment& environment, const std::string& self) {
  if (placement.srun) return {srun_command(options, placement, plan, site, environment, self)};
  std::vector<Command> commands;
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    const RankPlacement& rank = placement.ranks[i];
    Command command = process_command(options, placement, rank,
                                      rank_environment(plan, environment, plan.each_rank[i]));
    command.cpus = rank.cpus;
    command.speaks_for_node = rank.local_rank == 0;
    command.memory_numas = rank.memory_numas;
    // One that is alone here is rank 0, or a task, whose input srun gives it.
    command.takes_stdin = placement.ranks.size() == 1 || rank.rank == 0;
    commands.push_back(std::move(command));
  }
  for (std::size_t i = 0; i < plan.each_spare.size(); ++i) {
    commands.push_back(process_command(options, placement, placement.elastic->spares[i],
                                       rank_environment(plan, environment, plan.each_spare[i])));
  }
  if (!placement.elastic) return commands;
  for (const RankPlacement& place : placement.elastic->reserve) {
    Command command =
        process_command(options, placement, place, rank_environment(plan, environment, {}));
    command.cpus = place.cpus;
    command.memory_numas = place.memory_numas;
    command.starts_later = true;
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace hvd
