// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "base/format.h"
#include "base/rounding.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/launch_chain.h"
#include "launcher/lint/site_facts.h"
#include "launcher/site/condition.h"

namespace hvd {
namespace {

/// How many processes a launch has started so far; absent: the text does not say.
struct StartedTasks {
  std::optional<int> on_node;
  std::optional<int> all;
};

/// The tasks of a step: srun's own numbers, else those of the header.
StartedTasks tasks_of_step(const ScriptFacts& facts, const LaunchLine& launch) {
  const JobRequest& request = facts.request;
  const auto nodes = plain_number(launch_option(launch, "--nodes", 'N'));
  const auto tasks = plain_number(launch_option(launch, "--ntasks", 'n'));
  const auto on_node = plain_number(launch_option(launch, "--ntasks-per-node", 0));
  const int all_nodes = nodes.value_or(request.node_count());
  if (tasks && all_nodes > 0) return {divide_up(*tasks, all_nodes), tasks};
  if (on_node) return {on_node, *on_node * all_nodes};
  return {request.tasks_on_node(), request.all_tasks()};
}

StartedTasks started_by(const ScriptFacts& facts, const LaunchLine& launch) {
  // In a job hvdrun without -np starts the tasks of the job.
  const bool is_step =
      launch.program == "srun" || (launch.program == "hvdrun" && !rank_count(launch));
  if (is_step) return tasks_of_step(facts, launch);
  const auto count = plain_number(rank_count(launch));
  if (count) return {count, count};
  return {std::nullopt, std::nullopt};
}

/// What a launcher inside of a task starts by itself, as typed; absent: it becomes the task.
std::optional<std::string> own_processes(const LaunchLine& launch) {
  const std::string& program = launch.program;
  if (program == "hvdrun" && launch_option(launch, "--nested", 0)) return std::nullopt;
  if (program == "hvdrun") return rank_count(launch);
  const char* names[] = {"--nproc_per_node", "--nproc-per-node", "--num_processes", "--num_gpus"};
  for (const char* name : names) {
    if (auto count = launch_option(launch, name, 0)) return count;
  }
  if (program == "mpirun" || program == "mpiexec" || program == "horovodrun") {
    return rank_count(launch).value_or("several");
  }
  return std::nullopt;
}

Finding nested_finding(const LaunchLine& outer, const LaunchLine& inner,
                       const StartedTasks& started, const std::string& own) {
  const bool is_world = inner.program == "hvdrun";
  Finding finding{.rule = "nested-launch",
                  .severity = Severity::kError,
                  .line = inner.line,
                  .variable = inner.program};
  const int tasks = started.on_node.value_or(0) > 1 ? *started.on_node : started.all.value_or(0);
  const std::string where = started.on_node.value_or(0) > 1 ? " on each node" : "";
  const auto number = plain_number(own);
  std::string of_each = number && *number > 0
                            ? format_text("starts {} processes of its own", *number)
                            : format_text("starts processes of its own ({})", own);
  if (is_world && number) of_each = format_text("starts a world of {} of its own", *number);
  finding.why =
      tasks > 1 ? format_text("{} starts {} tasks{}, and {} in each of them {}", outer.program,
                              tasks, where, inner.program, of_each)
                : format_text("{} in each task of {} {}", inner.program, outer.program, of_each);
  if (tasks <= 1) finding.severity = Severity::kWarning;
  if (is_world) {
    finding.fix = outer.program == "srun"
                      ? "leave -np out: hvdrun then becomes each task's rank"
                      : format_text("leave one of them out: hvdrun -np {} PROGRAM", own);
  } else {
    finding.fix = format_text("write srun hvdrun PROGRAM, without {}, or one task on each node",
                              inner.program);
  }
  return finding;
}

void add_nested(const ScriptFacts& facts, const LaunchLine& launch,
                std::vector<Finding>& findings) {
  const std::vector<LaunchLine> chain = launch_chain(launch);
  StartedTasks started = started_by(facts, chain.front());
  std::size_t outer = 0;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    const std::optional<std::string> own = own_processes(chain[i]);
    if (!own || own == "1") continue;
    const bool starts_several = started.all.value_or(1) > 1 || started.on_node.value_or(1) > 1;
    // One starter on each node is how torchrun is meant; of hvdrun -np there is one in the job.
    const bool is_starter = chain[i].program != "hvdrun" && chain[i].program != "horovodrun" &&
                            chain[i].program != "mpirun" && chain[i].program != "mpiexec";
    const bool is_unknown = !is_starter && !started.all && chain[outer].program == "srun";
    const bool is_nested = is_starter ? started.on_node.value_or(1) > 1 : starts_several;
    if (is_nested || is_unknown) {
      findings.push_back(nested_finding(chain[outer], chain[i], started, *own));
      return;
    }
    started = started_by(facts, chain[i]);
    outer = i;
  }
}

/// A step of more tasks or nodes than the job has.
void add_too_big(const ScriptFacts& facts, const LaunchLine& launch,
                 std::vector<Finding>& findings) {
  if (launch.program != "srun" || launch_option(launch, "--overcommit", 'O')) return;
  const JobRequest& request = facts.request;
  const auto nodes = plain_number(launch_option(launch, "--nodes", 'N'));
  Finding finding{.rule = "step-too-big",
                  .severity = Severity::kError,
                  .line = launch.line,
                  .variable = "srun"};
  if (nodes && request.nodes && *nodes > *request.nodes) {
    finding.why = format_text("{} nodes, and the job has {}: srun refuses", *nodes, *request.nodes);
    finding.fix = format_text("ask for --nodes={} in the header, or leave it out here", *nodes);
    findings.push_back(std::move(finding));
    return;
  }
  const auto tasks = plain_number(launch_option(launch, "--ntasks", 'n'));
  const std::optional<int> all = request.all_tasks();
  if (!tasks || !all || *tasks <= *all) return;
  const int cores = request.cpus_per_task.value_or(1);
  const auto cores_here = plain_number(launch_option(launch, "--cpus-per-task", 'c'));
  // Fewer cores for each task, or whole nodes, may make room for more of them.
  const bool fits = std::int64_t{*tasks} * cores_here.value_or(cores) <= std::int64_t{*all} * cores;
  if (fits) return;
  const bool may_fit = cores > 1 || find_directive(facts.file, "exclusive") != nullptr ||
                       (facts.partition != nullptr && facts.partition->exclusive);
  if (may_fit) finding.severity = Severity::kWarning;
  finding.why = format_text("{} tasks, and the job has {}: {}", *tasks, *all,
                            may_fit ? "srun refuses, or they share cores" : "srun refuses");
  finding.fix = "leave -n out: srun takes the tasks of the job";
  findings.push_back(std::move(finding));
}

/// The --network that a condition of the site asks for; empty: none, or the rest does not hold.
std::string wanted_network(const SiteVariable& variable, const ScriptFacts& facts) {
  const Result<Condition> condition = parse_condition(variable.when);
  if (!condition.is_ok()) return "";
  std::string word;
  for (const ConditionTerm& term : condition.value()) {
    if (term.fact == Fact::kStepNetwork && !term.is_negated) word = term.value;
  }
  if (word.empty()) return "";
  SiteFacts known;
  known.nodes = facts.request.node_count();
  known.gpus_per_node = facts.request.gpus_on_node().value_or(
      facts.partition == nullptr ? 0 : facts.partition->gpus_per_node);
  known.step_network = word;
  const bool holds = evaluate(condition.value(), known).truth != Verdict::Truth::kFalse;
  return holds ? word : "";
}

bool says_network(const ScriptFacts& facts, const LaunchLine& launch, const std::string& word) {
  const SetVariable* variable = find_set(facts.file.variables, "SLURM_NETWORK");
  if (variable != nullptr && variable->value.value_or(word).find(word) != std::string::npos) {
    return true;
  }
  const Directive* directive = find_directive(facts.file, "network");
  if (directive != nullptr && directive->value.value_or("").find(word) != std::string::npos) {
    return true;
  }
  return launch_option(launch, "--network", 0).value_or("").find(word) != std::string::npos;
}

/// The site's variables that stay unset in a step which lacks their --network.
void add_missing_flag(const ScriptFacts& facts, const LaunchLine& launch,
                      std::vector<Finding>& findings) {
  const std::vector<LaunchLine> chain = launch_chain(launch);
  const bool has_hvdrun = std::any_of(
      chain.begin(), chain.end(), [](const LaunchLine& one) { return one.program == "hvdrun"; });
  if (launch.program != "srun" || !has_hvdrun) return;
  std::string names;
  std::string network;
  const SiteVariable* first = nullptr;
  for (const SiteVariable& variable : facts.site.env) {
    const std::string word = wanted_network(variable, facts);
    if (word.empty() || says_network(facts, launch, word)) continue;
    names += (names.empty() ? "" : ", ") + variable.name;
    if (first == nullptr) network = word;
    if (first == nullptr) first = &variable;
  }
  if (first == nullptr) return;
  Finding finding{.rule = "missing-step-flag", .line = launch.line, .variable = "srun"};
  finding.why = format_text("{} stay unset: {} sets them only where the step has --network={}",
                            names, facts.site.id, network);
  finding.fix = format_text("write srun --network={}", network);
  finding.edit =
      Edit{launch.after_program, launch.after_program, format_text(" --network={}", network)};
  findings.push_back(held_against(std::move(finding), first->provenance));
}

}  // namespace

std::vector<Finding> check_steps(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  for (const LaunchLine& launch : facts.file.launches) {
    add_nested(facts, launch, findings);
    add_too_big(facts, launch, findings);
    add_missing_flag(facts, launch, findings);
  }
  return findings;
}

}  // namespace hvd
