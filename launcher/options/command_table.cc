// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/command_table.h"

#include "launcher/options/parsers.h"

namespace hvd {
namespace {

constexpr std::string_view kRunning = "Run and look";
constexpr std::string_view kJobs = "Write jobs";
constexpr std::string_view kItself = "Ask hvdrun";

constexpr std::string_view kHidden;

constexpr std::string_view kProgram = "PROGRAM [ARGUMENTS...]";
constexpr std::string_view kMaybeProgram = "[-- PROGRAM [ARGUMENTS...]]";
constexpr std::string_view kMarkedProgram = "-- PROGRAM [ARGUMENTS...]";

Result<CommandLine> parse_plain_run(const std::vector<std::string>& arguments) {
  return parse_run(arguments, false);
}

Result<CommandLine> parse_explain(const std::vector<std::string>& arguments) {
  return parse_run(arguments, true);
}

Result<CommandLine> parse_header(const std::vector<std::string>& arguments) {
  return parse_job("header", arguments);
}

Result<CommandLine> parse_script(const std::vector<std::string>& arguments) {
  return parse_job("script", arguments);
}

Result<CommandLine> parse_submit(const std::vector<std::string>& arguments) {
  return parse_job("submit", arguments);
}

constexpr CommandEntry kCommands[] = {
    {"run",
     kRunning,
     "start and supervise the ranks of a program (the word run may be left out)",
     kProgram,
     {{"hvdrun -np 4 python3 train.py", "four ranks on this machine"},
      {"hvdrun python3 train.py", "in a batch script or salloc shell: one rank per GPU"},
      {"srun hvdrun python3 train.py", "in a batch script: srun starts the tasks"}},
     parse_plain_run},
    {"explain",
     kRunning,
     "say what run would do, and why (the same as --dry-run)",
     kProgram,
     {{"hvdrun explain python3 train.py", "placement, variables with their origin, commands"},
      {"hvdrun explain -np 4 --nodes 2 a.out", "the same for two virtual nodes"},
      {"hvdrun explain --json python3 train.py", "for programs"}},
     parse_explain},
    {"attach",
     kRunning,
     "watch a job that hvdrun --detach has started, or end it",
     "",
     {{"hvdrun attach", "which jobs there are"},
      {"hvdrun attach 3", "what job 3 writes, until it ends"},
      {"hvdrun attach 3 --end", "tell it to end, as Ctrl-C would"}},
     parse_attach},
    {"test-preempt",
     kRunning,
     "show that a training survives preemption, time limit and requeue",
     kMarkedProgram,
     {{"hvdrun test-preempt -np 2 --folder run/checkpoints -- python3 train.py", "on this machine"},
      {"hvdrun test-preempt --after 2m -- python3 train.py", "in salloc: on its nodes, by srun"},
      {"hvdrun test-preempt -np 2 --kill --folder run/checkpoints -- python3 train.py",
       "as when a node fails"}},
     parse_test_preempt},
    {"topo",
     kRunning,
     "draw the node: cores, GPUs, NICs, and what each rank would use",
     "",
     {{"hvdrun topo", "this machine, one rank per GPU"},
      {"hvdrun topo -np 8 --svg node.svg", "a drawing with eight ranks"},
      {"hvdrun topo --xml node.xml", "a node recorded by lstopo"}},
     parse_topo},
    {"env",
     kRunning,
     "print the variables that hvdrun sets here, and why",
     "",
     {{"hvdrun env --explain", "each variable with its source, and what it overrides"},
      {"hvdrun env --site lumi --nodes 2 --fabric slingshot-11", "as on two nodes of LUMI"},
      {"eval \"$(hvdrun env --export)\"", "for a script that starts its ranks itself"}},
     parse_env},
    {"sites",
     kRunning,
     "list the known sites, or the values of one, or draft a new one",
     "[SITE|new]",
     {{"hvdrun sites jean-zay", "every value of Jean Zay"},
      {"hvdrun sites jean-zay --json > ~/.config/hvdrun/sites/mine.json", "a file to change"},
      {"hvdrun sites new > mine.json", "a draft for this cluster; then --site ./mine.json"}},
     parse_sites},
    {"header",
     kJobs,
     "print the #SBATCH lines of a job for a site",
     kMaybeProgram,
     {{"hvdrun header --list", "the known sites and their partitions"},
      {"hvdrun header --site jean-zay --gpus 8", "two nodes of 4 GPUs"},
      {"hvdrun header --site jean-zay --gpus 8 -- python3 train.py", "named for the program"}},
     parse_header},
    {"script",
     kJobs,
     "print a whole job script for a site",
     kMarkedProgram,
     {{"hvdrun script --site jean-zay --gpus 8 -- python3 train.py", "two nodes of 4 GPUs"},
      {"hvdrun script --site jean-zay --gpus 8 --requeue -- python3 train.py",
       "goes back to the queue before its time ends"}},
     parse_script},
    {"submit",
     kJobs,
     "write a job script, submit it, and follow the job",
     kMarkedProgram,
     {{"hvdrun submit --gpus 8 --follow -- python3 train.py", "until its end, with its exit code"},
      {"hvdrun submit --gpus 8 --dry-run -- python3 train.py", "what would be submitted"},
      {"hvdrun submit --gpus 4 --interactive", "a shell in an allocation"}},
     parse_submit},
    {"lint",
     kJobs,
     "find what is wrong in job scripts and in the environment, and mend it",
     "FILE...",
     {{"hvdrun lint job.sbatch", "what is wrong, why, and what to write"},
      {"hvdrun lint --fix job.sbatch", "mend what can be mended by rule"},
      {"hvdrun lint --env", "the variables of this shell, held against this machine"}},
     parse_lint},
    {"check",
     kItself,
     "say what works here, and why each missing part is missing",
     "",
     {{"hvdrun check --build", "backends, rendezvous methods, libraries"},
      {"hvdrun check", "these, and the live cluster beside its site file"},
      {"hvdrun check --json", "the same for programs"}},
     parse_check},
    {"help",
     kItself,
     "print the help of a command",
     "[COMMAND]",
     {{"hvdrun help header", "the same as hvdrun header --help"}},
     parse_help},
    {"completion",
     kItself,
     "print the completion for bash, zsh or fish",
     "SHELL",
     {{"source <(hvdrun completion bash)", "in ~/.bashrc"},
      {"source <(hvdrun completion zsh)", "in ~/.zshrc, after compinit"},
      {"hvdrun completion fish | source", "in ~/.config/fish/config.fish"}},
     parse_completion},
    {"describe",
     kHidden,
     "print the table of commands",
     "FORMAT [COMMAND]",
     {{"hvdrun describe markdown", "docs/reference/hvdrun.md"}},
     parse_describe},
};

}  // namespace

std::span<const CommandEntry> command_table() { return kCommands; }

const CommandEntry* find_command(std::string_view name) {
  for (const CommandEntry& entry : command_table()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

CommandDescription describe_command(const CommandEntry& entry) {
  Result<CommandLine> asked = entry.parse({std::string(kDescribe)});
  HVD_CHECK(asked.is_ok() && std::holds_alternative<CommandDescription>(asked.value()));
  return std::get<CommandDescription>(std::move(asked).value());
}

std::vector<CommandDescription> describe_commands() {
  std::vector<CommandDescription> descriptions;
  for (const CommandEntry& entry : command_table()) {
    if (!entry.group.empty()) descriptions.push_back(describe_command(entry));
  }
  return descriptions;
}

}  // namespace hvd
