// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/env_command.h"

#include <algorithm>
#include <cstdio>

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/env/elsewhere.h"
#include "launcher/env/env_report.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/machine_facts.h"
#include "launcher/plan/placement.h"
#include "launcher/site/fabric_variables.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/site_detect.h"

namespace hvd {
namespace {

/// A typed fabric, with the interfaces that the site gives its nodes: this one may have others.
Status take_fabric(const std::string& kind, const SiteConfig& site, SiteFacts& facts) {
  if (kind.empty()) return Status::ok();
  const std::vector<std::string> known = fabric_kinds();
  if (std::find(known.begin(), known.end(), kind) == known.end()) {
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    return error(Code::kInvalidArgument, "no fabric '{}'\nhint: type one of {}", kind, list);
  }
  facts.fabric = kind;
  facts.interfaces = bootstrap_interfaces(site, "");
  return Status::ok();
}

/// Nothing by which a machine of the site could be recognised.
bool is_unmarked(const SiteDetect& detect) {
  return detect.variables.empty() && detect.cluster_names.empty() && detect.system_names.empty() &&
         detect.hostname.empty() && detect.domains.empty();
}

/// True for a typed site that this machine is not of. In a job the user knows better than the file
/// by which its site is recognised: there the nodes count.
Result<bool> is_elsewhere(const EnvOptions& options, const Environment& environment,
                          const Allocation& allocation, const SiteConfig& site) {
  if (options.site.empty() || site.partitions.empty()) return false;
  if (allocation.local() == nullptr || environment.has("SLURM_JOB_ID")) return false;
  HVD_TRY_ASSIGN(const std::vector<SiteEntry> entries, site_index(environment));
  HVD_TRY_ASSIGN(SiteEntry entry, choose_entry(entries, options.site));
  if (entry.retired.empty() && is_unmarked(entry.detect)) return false;
  HVD_TRY_ASSIGN(
      const std::optional<SiteClaim> claim,
      claim_site({std::move(entry)}, environment, read_host_facts(allocation.host, environment)));
  return !claim.has_value();
}

/// What a job of the site is told, as far as the site file knows it.
Status take_site(const EnvOptions& options, EnvReport& report, MachineEnvironment& machine) {
  report.facts = facts_of_site(report.site, options.gpus);
  report.facts.nodes = options.nodes.value_or(1);
  HVD_TRY(take_fabric(options.fabric, report.site, report.facts));
  const std::string kind = report.facts.fabric.value_or("");
  std::vector<SiteVariable> fabric;
  if (!kind.empty() && kind != "ethernet") fabric = fabric_variables(kind);
  start_step_here(report.site, report.facts);
  machine = plan_machine(report.site, fabric, report.facts, options.assume);
  return Status::ok();
}

Result<EnvReport> read_report(const EnvOptions& options) {
  const Environment environment = Environment::of_process();
  RunOptions run;
  run.site = options.site;
  run.assume = options.assume;
  HVD_TRY_ASSIGN(Allocation allocation, read_allocation(run, environment));
  // Nothing is started: `eval "$(hvdrun env)"` before mpiexec is right.
  if (allocation.local() != nullptr) allocation.launch = LocalLaunch();
  EnvReport report;
  HVD_TRY_ASSIGN(report.site, options.site.empty() ? detect_site(environment, allocation.host)
                                                   : find_site(options.site, environment));
  HVD_TRY_ASSIGN(const Placement placement, place(run, allocation));
  HVD_TRY_ASSIGN(report.is_elsewhere, is_elsewhere(options, environment, allocation, report.site));
  MachineEnvironment machine;
  if (report.is_elsewhere) {
    HVD_TRY(take_site(options, report, machine));
  } else {
    report.facts.nodes = options.nodes.value_or(placement.node_count);
    report.facts.gpus_per_node = options.gpus.value_or(placement.gpus_per_node);
    HVD_TRY(take_fabric(options.fabric, report.site, report.facts));
    machine = read_machine(report.site, allocation, report.facts, options.assume);
  }
  const EnvironmentPlan plan = plan_environment(run, allocation, machine, placement, {});
  report.variables = shown_variables(plan);
  report.unset = plan.unset;
  report.given = given_settings(environment);
  if (report.is_elsewhere) leave_out_counted(report);
  return report;
}

std::string text_of(const EnvReport& report, EnvForm form) {
  switch (form) {
    case EnvForm::kExplain:
      return env_explained(report);
    case EnvForm::kJson:
      return env_json(report);
    case EnvForm::kExport:
      return env_export(report);
    case EnvForm::kPlain:
      break;
  }
  return env_text(report);
}

/// A script that exports must be told of a value that nobody has documented.
void say_assumed(const EnvReport& report, const EnvOptions& options) {
  if (!options.assume || options.form == EnvForm::kExplain) return;
  for (const PlannedVariable& variable : report.variables) {
    if (!variable.provenance.is_assumed()) continue;
    std::fprintf(stderr, "hvdrun: --assume: %s=%s of %s is assumed: verify it\n",
                 variable.name.c_str(), variable.value.c_str(), variable.origin.c_str());
  }
}

}  // namespace

int run_env(const EnvOptions& options) {
  const Result<EnvReport> report = read_report(options);
  if (!report.is_ok()) {
    print_message(report.status().message());
    return report.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  print_messages(report.value().site.warnings);
  if (report.value().is_elsewhere) print_message(elsewhere_text(report.value()));
  say_assumed(report.value(), options);
  return print_answer(text_of(report.value(), options.form));
}

}  // namespace hvd
