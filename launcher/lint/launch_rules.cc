// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "base/format.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/launch_chain.h"
#include "launcher/lint/version.h"

namespace hvd {
namespace {

enum class PassesCpus { kYes, kWithheld, kUnknown };

/// Whether srun takes --cpus-per-task from the job: not from 22.05 to 23.02.
PassesCpus passes_cpus(const ScriptFacts& facts) {
  if (!facts.slurm.empty()) {
    const auto from = compare_versions(facts.slurm, "22.05");
    const auto to = compare_versions(facts.slurm, "23.11");
    if (from && to) return *from >= 0 && *to < 0 ? PassesCpus::kWithheld : PassesCpus::kYes;
  }
  const auto lowest = compare_versions(facts.site.scheduler.version_min, "23.11");
  return lowest && *lowest >= 0 ? PassesCpus::kYes : PassesCpus::kUnknown;
}

void add_cpus(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const PassesCpus passes = passes_cpus(facts);
  if (facts.request.cpus_per_task.value_or(1) < 2 || passes == PassesCpus::kYes) return;
  if (find_set(facts.file.variables, "SRUN_CPUS_PER_TASK") != nullptr) return;
  for (const LaunchLine& launch : facts.file.launches) {
    if (launch.program != "srun" || launch_option(launch, "--cpus-per-task", 'c')) continue;
    Finding finding{
        .rule = "cpus-not-passed",
        .severity = passes == PassesCpus::kWithheld ? Severity::kWarning : Severity::kNote,
        .line = launch.line,
        .variable = "srun"};
    finding.why = format_text(
        "srun of Slurm 22.05 to 23.02 does not take --cpus-per-task={} from "
        "the job: each task would get one core",
        *facts.request.cpus_per_task);
    finding.fix =
        "write srun --cpus-per-task=$SLURM_CPUS_PER_TASK, or export it as SRUN_CPUS_PER_TASK";
    finding.source = "Slurm release notes of 22.05 and 23.11";
    finding.edit = Edit{launch.after_program, launch.after_program,
                        " --cpus-per-task=\"$SLURM_CPUS_PER_TASK\""};
    findings.push_back(std::move(finding));
  }
}

bool has_network(const ScriptFacts& facts, std::string_view wanted) {
  const SetVariable* variable = find_set(facts.file.variables, "SLURM_NETWORK");
  if (variable != nullptr && variable->value.value_or("").find(wanted) != std::string::npos)
    return true;
  const Directive* directive = find_directive(facts.file, "network");
  if (directive != nullptr && directive->value.value_or("").find(wanted) != std::string::npos) {
    return true;
  }
  for (const LaunchLine& launch : facts.file.launches) {
    const auto network = launch_option(launch, "--network", 0);
    if (network && network->find(wanted) != std::string::npos) return true;
  }
  return false;
}

void add_network(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const SetVariable* protocol = find_set(facts.file.variables, "FI_CXI_RDZV_PROTO");
  if (protocol == nullptr || protocol->value != "alt_read") return;
  if (has_network(facts, "disable_rdzv_get")) return;
  findings.push_back({.rule = "alt-read-network",
                      .line = protocol->line,
                      .variable = protocol->name,
                      .why =
                          "alt_read needs the NIC's own rendezvous get switched off, and no srun "
                          "asks for it",
                      .fix = "add srun --network=disable_rdzv_get",
                      .source = "HPE shs-ccl-docs, 2026-04"});
}

std::optional<Finding> ranks_of_hvdrun(const ScriptFacts& facts, const LaunchLine& typed) {
  const LaunchLine launch = without_run(typed);
  const auto count = rank_count(launch);
  // --nodes: one who types it means this machine, or virtual nodes of it.
  if (!count || *count == "1" || launch_option(launch, "--nodes", 0)) return std::nullopt;
  return Finding{.rule = "launch-beside-slurm",
                 .line = launch.line,
                 .variable = "hvdrun",
                 .why = format_text("-np {}: all ranks start on the node of the script, and the "
                                    "job has {} nodes",
                                    *count, facts.request.node_count()),
                 .fix = "leave -np out: hvdrun then starts the tasks of the job on all its nodes"};
}

/// True where the user said which nodes, or how many ranks each of them has.
bool says_layout(const LaunchLine& launch) {
  constexpr const char* kNames[] = {
      "-H",        "--host",        "-host",        "--hosts",    "-hosts",    "--hostfile",
      "-hostfile", "--machinefile", "-machinefile", "-f",         "--ppn",     "-ppn",
      "--perhost", "-perhost",      "-N",           "--npernode", "-npernode", "--pernode",
      "-pernode",  "--map-by",      "-map-by",      "--rankfile", "-rankfile"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return launch_option(launch, name, 0).has_value(); });
}

std::optional<Finding> ranks_of_mpirun(const ScriptFacts& facts, const LaunchLine& launch) {
  const auto count = rank_count(launch);
  if (!count || *count == "1" || says_layout(launch)) return std::nullopt;
  const std::optional<int> tasks = facts.request.all_tasks();
  const bool is_number = count->find_first_not_of("0123456789") == std::string::npos;
  const bool differs = tasks && is_number && *count != std::to_string(*tasks);
  Finding finding{.rule = "launch-beside-slurm",
                  .severity = differs ? Severity::kWarning : Severity::kNote,
                  .line = launch.line,
                  .variable = launch.program};
  finding.why = differs
                    ? format_text(
                          "-np {}: the job has {} tasks on {} nodes; {} fills one node after the "
                          "other, as far as it knows them",
                          *count, *tasks, facts.request.node_count(), launch.program)
                    : format_text(
                          "-np {}: {} reaches the {} nodes of the job only where it was built "
                          "for Slurm or is given them",
                          *count, launch.program, facts.request.node_count());
  finding.fix = "write srun hvdrun PROGRAM: Slurm knows the number and the nodes";
  return finding;
}

std::optional<Finding> hosts_of_horovodrun(const LaunchLine& launch) {
  const char* found = nullptr;
  for (const char* name : {"-H", "--hosts", "-hostfile", "--hostfile"}) {
    if (launch_option(launch, name, 0)) found = name;
  }
  if (found == nullptr) return std::nullopt;
  return Finding{.rule = "launch-beside-slurm",
                 .severity = Severity::kNote,
                 .line = launch.line,
                 .variable = "horovodrun",
                 .why = format_text("{}: Horovod's own goes to these hosts by ssh; that of hvdrun "
                                    "uses the nodes of the job, whatever it says",
                                    found),
                 .fix = "write srun hvdrun PROGRAM: Slurm knows the number and the nodes"};
}

void add_counts(const ScriptFacts& facts, std::vector<Finding>& findings) {
  if (facts.request.node_count() < 2) return;
  for (const LaunchLine& launch : facts.file.launches) {
    std::optional<Finding> finding;
    if (launch.program == "hvdrun") finding = ranks_of_hvdrun(facts, launch);
    if (launch.program == "mpirun" || launch.program == "mpiexec") {
      finding = ranks_of_mpirun(facts, launch);
    }
    if (launch.program == "horovodrun") finding = hosts_of_horovodrun(launch);
    if (finding) findings.push_back(*std::move(finding));
  }
}

}  // namespace

std::vector<Finding> check_launches(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_cpus(facts, findings);
  add_network(facts, findings);
  add_counts(facts, findings);
  const JobRequest& request = facts.request;
  const int tasks =
      request.tasks.value_or(request.nodes.value_or(1) * request.tasks_per_node.value_or(1));
  if (tasks > 1 && facts.file.has_commands && facts.file.launches.empty()) {
    findings.push_back(
        {.rule = "no-launch",
         .severity = Severity::kNote,
         .why = format_text("{} tasks, and no line with srun or another launcher was found: the "
                            "script itself runs once",
                            tasks),
         .fix = "write srun hvdrun PROGRAM"});
  }
  return findings;
}

}  // namespace hvd
