// SPDX-License-Identifier: Apache-2.0
#include "launcher/command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace hvd {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

bool is_directory(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

bool is_program(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0 && !is_directory(path);
}

ProgramProblem not_executable(const std::string& path) {
  if (is_directory(path)) {
    return {kNotExecutable, format_text("{} is a directory, not a program", path)};
  }
  const bool is_python = path.ends_with(".py");
  return {kNotExecutable,
          format_text("{} is not executable: {}", path,
                      is_python ? "type `hvdrun python3 " + path + "`" : "try chmod +x " + path)};
}

/// The flags that the hvdrun in each task needs again.
void append_task_flags(const RunOptions& options, std::vector<std::string>& arguments) {
  for (const VariableOption& variable : options.variables) {
    arguments.emplace_back("-x");
    arguments.push_back(variable.value ? variable.name + "=" + *variable.value : variable.name);
  }
  if (options.bind == BindPolicy::kCores) arguments.insert(arguments.end(), {"--bind", "cores"});
  if (options.bind == BindPolicy::kNone) arguments.insert(arguments.end(), {"--bind", "none"});
  if (!options.site.empty()) arguments.insert(arguments.end(), {"--site", options.site});
  if (options.verbose) arguments.emplace_back("--verbose");
}

std::vector<std::string> srun_arguments(const RunOptions& options, const Placement& placement,
                                        const std::string& self) {
  std::vector<std::string> arguments{"srun", "--label", "--input=0", "--kill-on-bad-exit=0"};
  if (options.nodes) arguments.push_back(format_text("--nodes={}", *options.nodes));
  if (placement.says_size) arguments.push_back(format_text("--ntasks={}", placement.size));
  // From 22.05 on srun does not take it from the job any more.
  if (placement.cpus_per_rank > 0) {
    arguments.push_back(format_text("--cpus-per-task={}", placement.cpus_per_rank));
  }
  // No --gpu-bind=none: with it and several tasks per node, Slurm 22.05 unsets
  // CUDA_VISIBLE_DEVICES. A plain --gres shows every task all GPUs without it.
  arguments.insert(arguments.end(), {self, "run"});
  append_task_flags(options, arguments);
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), options.command.begin(), options.command.end());
  return arguments;
}

}  // namespace

std::variant<std::string, ProgramProblem> find_program(const std::string& program,
                                                       const Environment& environment) {
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return program;
    if (::access(program.c_str(), F_OK) == 0) return not_executable(program);
    return ProgramProblem{kNotFound, format_text("{}: no such program", program)};
  }
  const std::string path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string unusable;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t colon = std::min(path.find(':', start), path.size());
    const std::string folder = path.substr(start, colon - start);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    start = colon + 1;
    if (is_program(candidate)) return candidate;
    if (unusable.empty() && ::access(candidate.c_str(), F_OK) == 0 && !is_directory(candidate)) {
      unusable = candidate;
    }
  }
  if (!unusable.empty()) return not_executable(unusable);
  std::string remedy = "check its name and PATH";
  if (is_program("./" + program)) remedy = "it is in this folder: type ./" + program;
  if (program.ends_with(".py")) remedy = "type `hvdrun python3 " + program + "`";
  return ProgramProblem{kNotFound, format_text("{}: no such program in PATH; {}", program, remedy)};
}

std::vector<Command> build_commands(const RunOptions& options, const Placement& placement,
                                    const EnvironmentPlan& plan, const Environment& environment,
                                    const std::string& self) {
  std::vector<Command> commands;
  if (placement.way == Way::kSlurmShell) {
    Command srun;
    srun.rank = -1;
    srun.host = placement.hosts.front();
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
    command.host = placement.way == Way::kTask || placement.virtual_nodes == 1
                       ? placement.hosts.front()
                       : format_text("{}/node{}", placement.hosts.front(), rank.node);
    command.arguments = options.command;
    command.variables = rank_environment(plan, environment, i);
    command.cpus = rank.cpus;
    command.takes_stdin = placement.way == Way::kTask || rank.rank == 0;
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string quote_for_shell(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += " ";
    const bool plain =
        !argument.empty() && std::all_of(argument.begin(), argument.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 std::string_view("-_=./,:+@%").find(c) != std::string_view::npos;
        });
    if (plain) {
      line += argument;
      continue;
    }
    line += "'";
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return line;
}

}  // namespace hvd
