// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/header_rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "launcher/lint/rule_table.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

constexpr std::string_view kManual = "sbatch(1) of Slurm 22.05 to 25.05";
constexpr std::string_view kCgroup =
    "Slurm source and reports: nccl-tests #300, warpx #6382 (2025), E3SM #4834";

/// Options that add up, or whose repetition is a habit.
bool may_repeat(std::string_view option) {
  return option == "comment" || option == "verbose" || option == "quiet";
}

/// What makes sbatch refuse the file as a whole. Files without directives are not meant for sbatch.
void add_file_form(const SbatchFile& file, std::vector<Finding>& findings) {
  if (file.directives.empty() && file.broken.empty()) return;
  const LintRule& rule = lint_rule("no-batch-script");
  Finding finding{
      .rule = rule.id, .severity = rule.severity, .line = 1, .source = std::string(kManual)};
  if (!file.text.starts_with("#!")) {
    finding.why = "the first line names no interpreter, so sbatch refuses the file";
    finding.fix = "write #!/bin/bash above it";
    finding.edit = Edit{0, 0, "#!/bin/bash\n"};
    findings.push_back(std::move(finding));
  } else if (const std::size_t at = file.text.find("\r\n"); at != std::string::npos) {
    const auto end = file.text.begin() + static_cast<std::ptrdiff_t>(at);
    finding.line += static_cast<int>(std::count(file.text.begin(), end, '\n'));
    finding.why = "the line ends as on DOS (\\r\\n), so sbatch refuses the file";
    finding.fix = "run dos2unix on it, or sed -i 's/\\r$//'";
    findings.push_back(std::move(finding));
  }
}

void add_broken_lines(const SbatchFile& file, std::vector<Finding>& findings) {
  for (const BrokenDirective& broken : file.broken) {
    const LintRule& rule = lint_rule(broken.rule);
    Finding finding{.rule = rule.id,
                    .severity = rule.severity,
                    .line = broken.line,
                    .why = broken.why,
                    .fix = broken.fix,
                    .source = std::string(kManual)};
    if (broken.mended_at) {
      finding.edit = Edit{broken.mended_at->begin, broken.mended_at->end, broken.mended};
    }
    findings.push_back(std::move(finding));
  }
}

/// Another line that gives the option says that this one was meant to be off.
void add_switched_off(const SbatchFile& file, std::vector<Finding>& findings) {
  for (const SwitchedOff& line : file.switched_off) {
    if (find_directive(file, line.option) != nullptr) continue;
    findings.push_back({.rule = "unread-directive",
                        .severity = Severity::kWarning,
                        .line = line.line,
                        .variable = "--" + line.option,
                        .why = "a blank follows the #, so this is a comment",
                        .fix = "write #SBATCH, or ##SBATCH where it is meant to be off",
                        .source = std::string(kManual)});
  }
}

void add_options(const SbatchFile& file, std::vector<Finding>& findings) {
  std::set<std::string> seen;
  for (const Directive& directive : file.directives) {
    if (!directive.is_known) continue;
    if (!seen.insert(directive.option).second && !may_repeat(directive.option)) {
      Finding finding = directive_finding("repeated-option", directive);
      finding.why = "given twice; this one counts";
      finding.fix = "drop one of them";
      findings.push_back(std::move(finding));
    }
  }
}

/// Why sbatch refuses a list of features; empty: it does not.
std::string constraint_fault(const std::string& text) {
  int depth = 0;
  char before = '&';
  for (const char letter : text) {
    const bool is_joint = letter == '&' || letter == '|' || letter == ',';
    if (letter == ' ' || letter == '\t') return "it has a blank in it";
    if (letter == '[' || letter == '(') ++depth;
    if (letter == ']' || letter == ')') --depth;
    if (depth < 0) return "a bracket is closed that was not opened";
    const bool after_joint =
        before == '&' || before == '|' || before == ',' || before == '[' || before == '(';
    if (is_joint && after_joint) return format_text("a feature is missing before '{}'", letter);
    before = letter;
  }
  if (depth != 0) return "a bracket is not closed";
  if (!text.empty() && (before == '&' || before == '|' || before == ',')) {
    return format_text("a feature is missing after '{}'", before);
  }
  return "";
}

void add_constraint(const SbatchFile& file, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(file, "constraint");
  if (directive == nullptr || !directive->value) return;
  const std::string fault = constraint_fault(*directive->value);
  if (fault.empty()) return;
  Finding finding = directive_finding("bad-constraint", *directive);
  finding.severity = Severity::kError;
  finding.why = format_text("'{}': {}", *directive->value, fault);
  finding.fix = "write features joined by & (all), | (any) or , without blanks, such as gpu&hbm80g";
  std::string joined;
  for (const char letter : *directive->value) {
    if (letter != ' ' && letter != '\t') joined += letter;
  }
  if (constraint_fault(joined).empty()) finding.edit = new_value(*directive, "\"" + joined + "\"");
  findings.push_back(std::move(finding));
}

void add_time(const SbatchFile& file, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(file, "time");
  if (directive == nullptr || !directive->value) return;
  const Result<std::chrono::seconds> limit = parse_time_limit(*directive->value);
  if (limit.is_ok() || *directive->value == "UNLIMITED" || *directive->value == "INFINITE") return;
  Finding finding = directive_finding("bad-time", *directive);
  finding.severity = Severity::kError;
  finding.why = limit.status().message();
  finding.fix = "write H:MM:SS or D-HH:MM:SS; a bare number is minutes";
  findings.push_back(std::move(finding));
}

void add_tasks(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const JobRequest& request = facts.request;
  const Directive* tasks = find_directive(facts.file, "ntasks");
  if (tasks == nullptr || !request.tasks || !request.nodes || *request.nodes < 1) return;
  if (request.tasks_per_node && *request.tasks_per_node * *request.nodes != *request.tasks) {
    Finding finding = directive_finding("tasks-disagree", *tasks);
    finding.severity = *request.tasks > *request.tasks_per_node * *request.nodes
                           ? Severity::kError
                           : Severity::kWarning;
    finding.why =
        format_text("{} tasks, but {} nodes with {} each are {}", *request.tasks, *request.nodes,
                    *request.tasks_per_node, *request.nodes * *request.tasks_per_node);
    finding.fix = "drop --ntasks: nodes and tasks per node say it";
    findings.push_back(std::move(finding));
    return;
  }
  if (*request.tasks % *request.nodes == 0) return;
  Finding finding = directive_finding("tasks-not-divisible", *tasks);
  finding.why =
      format_text("{} tasks on {} nodes: some get {}, others {}", *request.tasks, *request.nodes,
                  *request.tasks / *request.nodes + 1, *request.tasks / *request.nodes);
  finding.fix = format_text("write --ntasks={}, or say --ntasks-per-node",
                            *request.tasks / *request.nodes * *request.nodes == 0
                                ? *request.nodes
                                : *request.tasks / *request.nodes * *request.nodes);
  findings.push_back(std::move(finding));
}

/// Launchers that want one task per node and start one process per GPU themselves.
bool starts_own_processes(const std::string& text) {
  constexpr std::array<std::string_view, 5> kNames{"torchrun", "torch.distributed", "accelerate",
                                                   "deepspeed", "ft_launcher"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return text.find(name) != std::string::npos; });
}

/// Whether a launch keeps all GPUs open to each task in spite of --gpus-per-task.
bool keeps_gpus_open(const LaunchLine& launch) {
  return launch_option(launch, "--gpu-bind", 0) == "none" ||
         launch_option(launch, "--gres-flags", 0) == "allow-task-sharing";
}

void add_gpu_binding_of_launches(const SbatchFile& file, std::vector<Finding>& findings) {
  for (const LaunchLine& launch : file.launches) {
    const auto bind = launch_option(launch, "--gpu-bind", 0);
    const bool per_task = launch_option(launch, "--gpus-per-task", 0).has_value();
    const bool closes = per_task || (bind && *bind != "none" && !bind->empty());
    if (launch.program != "srun" || !closes || keeps_gpus_open(launch)) continue;
    Finding finding{.rule = per_task ? "gpus-per-task" : "gpu-bind",
                    .line = launch.line,
                    .variable = per_task ? "srun --gpus-per-task" : "srun --gpu-bind"};
    finding.why =
        "each task gets a device cgroup with its own GPU alone: CUDA IPC and NVLink "
        "between ranks of a node are lost";
    finding.fix =
        "drop it, and let hvdrun choose each rank's GPU, or add "
        "--gres-flags=allow-task-sharing (Slurm 23.11.4 and later)";
    finding.source = std::string(kCgroup);
    findings.push_back(std::move(finding));
  }
}

void add_gpu_binding(const SbatchFile& file, std::vector<Finding>& findings) {
  const Directive* bind = find_directive(file, "gpu-bind");
  const std::string binding = bind == nullptr ? "" : bind->value.value_or("");
  if (const Directive* per_task = find_directive(file, "gpus-per-task");
      per_task != nullptr && binding != "none" &&
      std::none_of(file.launches.begin(), file.launches.end(), keeps_gpus_open)) {
    Finding finding = directive_finding("gpus-per-task", *per_task);
    finding.why =
        "each task gets a device cgroup with its own GPU alone: CUDA IPC and NVLink "
        "between ranks of a node are lost";
    finding.fix = "ask by node (--gpus-per-node=N or --gres=gpu:N), or add --gpu-bind=none";
    finding.source = std::string(kCgroup);
    if (bind == nullptr) finding.edit = new_directive(file, "--gpu-bind=none");
    findings.push_back(std::move(finding));
  }
  if (bind == nullptr || binding == "none" || binding.empty()) return;
  Finding finding = directive_finding("gpu-bind", *bind);
  finding.why = format_text(
      "'{}' hides the other ranks' GPUs of the node from each task: CUDA IPC "
      "and NVLink between ranks may be lost",
      binding);
  finding.fix = "write --gpu-bind=none; hvdrun chooses each rank's GPU";
  finding.source = std::string(kCgroup);
  findings.push_back(std::move(finding));
}

void add_mixed_gpus(const SbatchFile& file, std::vector<Finding>& findings) {
  const Directive* gres = find_directive(file, "gres");
  if (gres == nullptr || !gres->value || !gpu_count(*gres->value, true)) return;
  const std::string type = gpu_type_of(*gres->value, true);
  for (const char* option : {"gpus-per-node", "gpus", "gpus-per-task", "gpus-per-socket"}) {
    const Directive* other = find_directive(file, option);
    if (other == nullptr || !other->value) continue;
    const std::string other_type = gpu_type_of(*other->value, false);
    const bool excludes = std::string_view(option) == "gpus-per-node";
    if (!excludes && type.empty() == other_type.empty()) continue;
    Finding finding = directive_finding("mixed-gpu-options", *other);
    finding.severity = Severity::kError;
    finding.why = excludes ? format_text("{} and --gres={} ask for the same GPUs twice",
                                         other->spelled, *gres->value)
                           : format_text(
                                 "{}={} and --gres={}: one names the type, the other does "
                                 "not, and Slurm takes them for different things",
                                 other->spelled, *other->value, *gres->value);
    finding.fix = format_text("drop {}, or --gres", other->spelled);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

Finding directive_finding(std::string_view rule, const Directive& directive) {
  return {.rule = rule,
          .severity = lint_rule(rule).severity,
          .line = directive.line,
          .variable = directive.spelled,
          .source = std::string(kManual)};
}

Edit new_value(const Directive& directive, std::string value) {
  return {directive.value_at.begin, directive.value_at.end, std::move(value)};
}

Edit removal(const Directive& directive) {
  return {directive.gone_at.begin, directive.gone_at.end, ""};
}

Edit new_directive(const SbatchFile& file, const std::string& option) {
  const std::size_t at = file.directives_end;
  const bool needs_end = at > 0 && at <= file.text.size() && file.text[at - 1] != '\n';
  return {at, at, format_text("{}#SBATCH {}\n", needs_end ? "\n" : "", option)};
}

std::vector<Finding> check_syntax(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_file_form(facts.file, findings);
  add_broken_lines(facts.file, findings);
  add_switched_off(facts.file, findings);
  add_options(facts.file, findings);
  add_constraint(facts.file, findings);
  add_time(facts.file, findings);
  return findings;
}

std::vector<Finding> check_request(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_tasks(facts, findings);
  add_gpu_binding(facts.file, findings);
  add_gpu_binding_of_launches(facts.file, findings);
  add_mixed_gpus(facts.file, findings);
  const JobRequest& request = facts.request;
  const std::optional<int> gpus = request.gpus_on_node();
  const std::optional<int> tasks = request.tasks_on_node();
  if (gpus && *gpus > 1 && tasks.value_or(1) == 1) {
    const char* option = request.gpus_per_node ? "gpus-per-node" : "gpus";
    const Directive* at = find_directive(facts.file, option);
    if (at == nullptr) at = find_directive(facts.file, "gres");
    if (at == nullptr) at = find_directive(facts.file, "gpus-per-task");
    if (at != nullptr) {
      Finding finding = directive_finding("one-task-many-gpus", *at);
      finding.why = format_text("{} GPUs of a node for one task: one rank drives one GPU", *gpus);
      finding.fix = format_text("write --ntasks-per-node={}", *gpus);
      if (starts_own_processes(facts.file.text)) finding.severity = Severity::kNote;
      if (request.tasks) finding.fix += ", and drop --ntasks";
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace hvd
