// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command.h"

#include <algorithm>

namespace hvd {
namespace {

/// The flags that the hvdrun in each task needs again.
void append_task_flags(const RunOptions& options, std::vector<std::string>& arguments) {
  for (const VariableOption& variable : options.variables) {
    arguments.emplace_back("-x");
    arguments.push_back(variable.value ? variable.name + "=" + *variable.value : variable.name);
  }
  for (std::string& flag : bind_flags(options.bind)) arguments.push_back(std::move(flag));
  if (options.gpu_visibility == GpuVisibility::kOne) {
    arguments.insert(arguments.end(), {"--gpu-visibility", "one"});
  }
  if (!options.site.empty()) arguments.insert(arguments.end(), {"--site", options.site});
  if (options.assume) arguments.emplace_back("--assume");
  if (options.verbose) arguments.emplace_back("--verbose");
}

std::vector<std::string> srun_arguments(const RunOptions& options, const Placement& placement,
                                        const std::string& self) {
  std::vector<std::string> arguments{"srun", "--label", "--input=0", "--kill-on-bad-exit=0"};
  if (placement.job_parts > 1) {
    arguments.push_back(format_text("--het-group=0-{}", placement.job_parts - 1));
  }
  if (options.nodes) arguments.push_back(format_text("--nodes={}", *options.nodes));
  if (placement.says_size) arguments.push_back(format_text("--ntasks={}", placement.size));
  // From 22.05 on srun does not take it from the job any more.
  if (placement.cpus_per_rank > 0) {
    arguments.push_back(format_text("--cpus-per-task={}", placement.cpus_per_rank));
  }
  // The map is of the node's CPUs; a mask of Slurm's for each task would be in its way.
  if (options.bind.policy == BindPolicy::kMap) arguments.emplace_back("--cpu-bind=none");
  // No --gpu-bind=none: with it and several tasks per node, Slurm 22.05 unsets
  // CUDA_VISIBLE_DEVICES. A plain --gres shows every task all GPUs without it.
  arguments.insert(arguments.end(), {self, "run"});
  append_task_flags(options, arguments);
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), options.command.begin(), options.command.end());
  return arguments;
}

}  // namespace

std::string describe_command(const Command& command) {
  return command.rank ? format_text("rank {}", *command.rank) : command.arguments.front();
}

std::vector<Command> build_commands(const RunOptions& options, const Placement& placement,
                                    const EnvironmentPlan& plan, const Environment& environment,
                                    const std::string& self) {
  std::vector<Command> commands;
  if (placement.way == Way::kSlurmShell) {
    Command srun;
    srun.host = placement.this_host;
    srun.arguments = srun_arguments(options, placement, self);
    srun.variables = rank_environment(plan, environment, 0);
    srun.takes_stdin = true;
    commands.push_back(std::move(srun));
    return commands;
  }
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    const RankPlacement& rank = placement.ranks[i];
    Command command;
    command.rank = rank.rank;
    command.host = rank.host;
    command.arguments = options.command;
    command.variables = rank_environment(plan, environment, i);
    command.cpus = rank.cpus;
    command.speaks_for_node = rank.local_rank == 0;
    command.memory_numas = rank.memory_numas;
    command.takes_stdin = placement.way == Way::kTask || rank.rank == 0;
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace hvd
