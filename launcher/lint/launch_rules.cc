// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/lint/header_rules.h"
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

}  // namespace

std::vector<Finding> check_launches(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_cpus(facts, findings);
  add_network(facts, findings);
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
