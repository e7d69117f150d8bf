// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/launch_chain.h"

namespace hvd {
namespace {

/// Ranks of one node that hvdrun starts by itself: the most of any -np; absent: it starts none.
std::optional<int> ranks_of_hvdrun(const SbatchFile& file) {
  std::optional<int> most;
  for (const LaunchLine& launch : file.launches) {
    if (launch.program != "hvdrun") continue;
    const auto count = plain_number(rank_count(without_run(launch)));
    if (count) most = std::max(most.value_or(0), *count);
  }
  return most;
}

bool shares_gpus(const SbatchFile& file) {
  return find_set(file.variables, "HVD_SHARE_GPU") != nullptr;
}

/// --ntasks-per-node=3 --gres=gpu:4
void add_tasks_and_gpus(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const JobRequest& request = facts.request;
  const std::optional<int> tasks = request.tasks_on_node();
  const std::optional<int> gpus = request.gpus_on_node();
  const bool says_tasks = request.tasks_per_node || request.tasks;
  if (!says_tasks || !tasks || !gpus || *tasks < 2 || *gpus < 1 || *tasks == *gpus) return;
  if (request.gpus_per_task || (*tasks > *gpus && shares_gpus(facts.file))) return;
  const Directive* at = find_directive(facts.file, "ntasks-per-node");
  if (at == nullptr || request.tasks) at = find_directive(facts.file, "ntasks");
  if (at == nullptr) return;
  Finding finding = directive_finding("tasks-and-gpus", *at);
  finding.why = *tasks < *gpus
                    ? format_text(
                          "{} tasks and {} GPUs on a node: one rank drives one GPU, and {} "
                          "idle all through the job",
                          *tasks, *gpus,
                          *gpus - *tasks == 1 ? std::string("one stays")
                                              : format_text("{} stay", *gpus - *tasks))
                    : format_text(
                          "{} tasks and {} GPU{} on a node: ranks would share a GPU, "
                          "which hvdrun refuses",
                          *tasks, *gpus, *gpus == 1 ? "" : "s");
  finding.fix = format_text("write --ntasks-per-node={}, or ask for {} GPUs", *gpus, *tasks);
  finding.source.clear();
  findings.push_back(std::move(finding));
}

/// Entries of a list of devices; 0: it hides them all, as people do for a job without GPUs.
int devices_in(std::string_view list) {
  if (list.empty() || list == "-1" || list == "NoDevFiles" || list == "none") return 0;
  return 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}

/// export CUDA_VISIBLE_DEVICES=0 above a step of four tasks on a node.
void add_hidden_gpus(const ScriptFacts& facts, std::vector<Finding>& findings) {
  constexpr std::array<std::string_view, 3> kNames{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                   "ROCR_VISIBLE_DEVICES"};
  const int ranks =
      std::max(facts.request.tasks_on_node().value_or(1), ranks_of_hvdrun(facts.file).value_or(1));
  if (ranks < 2 || shares_gpus(facts.file)) return;
  for (const SetVariable& variable : facts.file.variables) {
    const bool is_list = std::find(kNames.begin(), kNames.end(), variable.name) != kNames.end();
    if (!is_list || !variable.value) continue;
    const int devices = devices_in(*variable.value);
    if (devices == 0 || devices >= ranks) continue;
    Finding finding{.rule = "hidden-gpus",
                    .severity = Severity::kError,
                    .line = variable.line,
                    .variable = variable.name};
    finding.why = format_text("'{}' shows {} GPU{} to {} ranks of a node", *variable.value, devices,
                              devices == 1 ? "" : "s", ranks);
    finding.fix = "drop it: hvdrun gives each rank the GPU near its cores";
    if (variable.whole_at)
      finding.edit = Edit{variable.whole_at->begin, variable.whole_at->end, ""};
    findings.push_back(std::move(finding));
  }
}

/// --mem=0 --mem-per-cpu=3G
void add_memory(const SbatchFile& file, std::vector<Finding>& findings) {
  const Directive* first = nullptr;
  for (const char* option : {"mem", "mem-per-cpu", "mem-per-gpu"}) {
    const Directive* directive = find_directive(file, option);
    if (directive == nullptr) continue;
    if (first == nullptr) {
      first = directive;
      continue;
    }
    const Directive* later = directive->line >= first->line ? directive : first;
    const Directive* other = later == directive ? first : directive;
    Finding finding = directive_finding("memory-twice", *later);
    finding.why = format_text("excludes {}={} of line {}: sbatch refuses the two together",
                              other->spelled, other->value.value_or(""), other->line);
    finding.fix = "drop one of them";
    findings.push_back(std::move(finding));
    return;
  }
}

/// OMP_NUM_THREADS=10 with --cpus-per-task=8
void add_threads(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const std::optional<int> cores = facts.request.cpus_per_task;
  if (!cores || *cores < 1) return;
  const bool is_own = std::any_of(
      facts.file.launches.begin(), facts.file.launches.end(), [](const LaunchLine& launch) {
        const auto given = launch_option(launch, "--cpus-per-task", 'c');
        return launch.program == "srun" && given && given->find('$') == std::string::npos;
      });
  if (is_own) return;
  for (const SetVariable& variable : facts.file.variables) {
    if (variable.name != "OMP_NUM_THREADS") continue;
    const auto threads = plain_number(variable.value);
    if (!threads || *threads <= *cores) continue;
    Finding finding{.rule = "too-many-threads", .line = variable.line, .variable = variable.name};
    finding.why = format_text("{} threads on the {} core{} of a task", *threads, *cores,
                              *cores == 1 ? "" : "s");
    finding.fix = format_text("write {}, or $SLURM_CPUS_PER_TASK", *cores);
    if (variable.value_at) {
      finding.edit = Edit{variable.value_at->begin, variable.value_at->end, std::to_string(*cores)};
    }
    findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> check_shares(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_tasks_and_gpus(facts, findings);
  add_hidden_gpus(facts, findings);
  add_memory(facts.file, findings);
  add_threads(facts, findings);
  return findings;
}

}  // namespace hvd
