// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/format.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/launch_chain.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// The launcher whose variable it is; null: of none, of hvdrun, or of Slurm, whose srun sets its
/// own.
const LaunchSource* source_of_variable(std::string_view name) {
  for (const LaunchSource& source : kLaunchSources) {
    if (source.layer == LauncherLayer::kHvdrun || source.name == kSlurmStep) continue;
    for (const std::string_view one : {source.rank, source.size, source.local_rank,
                                       source.local_size, source.node, source.node_count}) {
      if (one == name) return &source;
    }
  }
  return nullptr;
}

bool is_size(const LaunchSource& source, std::string_view name) {
  return name == source.size || name == source.local_size || name == source.node_count;
}

/// The launch by hvdrun in the words of a line; absent: there is none.
std::optional<LaunchLine> hvdrun_in(const LaunchLine& launch) {
  for (const LaunchLine& one : launch_chain(launch)) {
    if (one.program == "hvdrun" || one.program == "horovodrun") return one;
  }
  return std::nullopt;
}

/// Whether bytes [begin, end) of a script belong to one command.
bool is_one_command(std::string_view text, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end && at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == ';' || letter == '&' || letter == '|') return false;
    if (letter == '\n' && (at == 0 || text[at - 1] != '\\')) return false;
  }
  return true;
}

/// Whether the processes of a launch see a variable, and see it as the script has it: hvdrun -np
/// replaces what its own environment says.
bool reaches(const SbatchFile& file, const SetVariable& variable, const LaunchLine& launch,
             bool is_replaced) {
  if (variable.scope == VariableScope::kShell) return false;
  const bool is_given = variable.scope == VariableScope::kCommand && !variable.name_at;
  if (is_given) {
    const auto next = std::find_if(
        file.launches.begin(), file.launches.end(),
        [&](const LaunchLine& one) { return one.line > launch.line && one.line <= variable.line; });
    return variable.line >= launch.line && next == file.launches.end();
  }
  if (is_replaced) return false;
  const std::size_t at = variable.name_at ? variable.name_at->begin : 0;
  if (at >= launch.after_program) return false;
  if (variable.scope == VariableScope::kCommand) {
    return is_one_command(file.text, at, launch.after_program);
  }
  return std::none_of(file.unset.begin(), file.unset.end(), [&](const UnsetName& one) {
    return one.name == variable.name && one.line >= variable.line && one.line <= launch.line;
  });
}

/// Tasks that a line starts; absent: no number says it.
std::optional<int> tasks_of(const ScriptFacts& facts, const LaunchLine& launch) {
  if (launch.program == "srun") {
    if (const auto count = launch_option(launch, "--ntasks", 'n')) return plain_number(count);
  }
  return facts.request.all_tasks();
}

/// Whether one value for all tasks is right: the number of tasks, or rank 0 of a job of one.
bool is_right(const SbatchFile& file, const LaunchSource& source, const SetVariable& variable,
              std::optional<int> tasks) {
  const auto number = plain_number(variable.value);
  if (!number) return true;  // only the shell knows, or it is not a rank
  if (tasks && variable.name == source.size && *number == *tasks) return true;
  if (tasks == 1) return *number == (is_size(source, variable.name) ? 1 : 0);
  if (tasks || !is_size(source, variable.name)) return false;
  const SetVariable* rank = find_set(file.variables, source.rank);
  return rank == nullptr || !rank->value;
}

Finding fixed_identity(const SetVariable& variable) {
  Finding finding{
      .rule = "set-by-hvdrun",
      .line = variable.line,
      .variable = variable.name,
      .why =
          "one line of a script gives all ranks the same value, and hvdrun takes it for "
          "what another launch said: it refuses the job, or each rank is a world of "
          "its own",
      .fix = "drop it: hvdrun gives each rank its own",
      .source = "docs/reference/identity.md"};
  if (variable.whole_at) finding.edit = Edit{variable.whole_at->begin, variable.whole_at->end, ""};
  return finding;
}

}  // namespace

std::vector<Finding> check_identity(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  for (const SetVariable& variable : facts.file.variables) {
    const LaunchSource* source = source_of_variable(variable.name);
    if (source == nullptr || !variable.value) continue;
    const bool is_wrong = std::any_of(
        facts.file.launches.begin(), facts.file.launches.end(), [&](const LaunchLine& launch) {
          const std::optional<LaunchLine> hvdrun = hvdrun_in(launch);
          return hvdrun && reaches(facts.file, variable, launch, rank_count(*hvdrun).has_value()) &&
                 !is_right(facts.file, *source, variable, tasks_of(facts, launch));
        });
    if (is_wrong) findings.push_back(fixed_identity(variable));
  }
  return findings;
}

}  // namespace hvd
