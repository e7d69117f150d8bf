// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/env_command.h"

#include <algorithm>
#include <cstdio>

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/env/env_report.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/machine_facts.h"
#include "launcher/plan/placement.h"
#include "launcher/site/fabric_variables.h"
#include "launcher/site/site_catalog.h"

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

Result<EnvReport> read_report(const EnvOptions& options) {
  const Environment environment = Environment::of_process();
  RunOptions run;
  run.site = options.site;
  run.assume = options.assume;
  HVD_TRY_ASSIGN(const Allocation allocation, read_allocation(run, environment));
  EnvReport report;
  HVD_TRY_ASSIGN(report.site, options.site.empty() ? detect_site(environment, allocation.host)
                                                   : find_site(options.site, environment));
  HVD_TRY_ASSIGN(const Placement placement, place(run, allocation));
  report.facts.nodes = options.nodes.value_or(placement.node_count);
  report.facts.gpus_per_node = options.gpus.value_or(placement.gpus_per_node);
  HVD_TRY(take_fabric(options.fabric, report.site, report.facts));
  const MachineEnvironment machine =
      read_machine(report.site, allocation, report.facts, options.assume);
  const EnvironmentPlan plan = plan_environment(run, allocation, machine, placement, {});
  report.variables = shown_variables(plan);
  report.unset = plan.unset;
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
  say_assumed(report.value(), options);
  return print_answer(text_of(report.value(), options.form));
}

}  // namespace hvd
