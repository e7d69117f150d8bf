// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/run_command.h"

#include <sys/random.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <variant>

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/binding_report.h"
#include "launcher/plan/command.h"
#include "launcher/plan/dry_run.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"
#include "launcher/run/exec.h"
#include "launcher/run/handled_signals.h"
#include "launcher/run/job_store.h"
#include "launcher/run/program_path.h"
#include "launcher/run/srun_report.h"
#include "launcher/run/supervisor.h"
#include "launcher/site/site_catalog.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

void say(const std::string& text) { print_message(text); }

int refuse(const Status& status) {
  say(status.message());
  return status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
}

std::string new_marker() {
  std::uint64_t random = 0;
  (void)::getrandom(&random, sizeof random, 0);
  return format_text("{:016x}", random);
}

/// Everything the decisions are made from, read before any of them.
struct Inputs {
  Allocation allocation;
  SiteConfig site;
  MachineEnvironment machine;
  std::string self;  ///< Path of hvdrun.
};

Result<Inputs> read_inputs(const RunOptions& options) {
  Inputs inputs;
  const Environment environment = Environment::of_process();
  HVD_TRY_ASSIGN(inputs.allocation, read_allocation(options, environment));
  HVD_TRY_ASSIGN(inputs.site, options.site.empty()
                                  ? detect_site(environment, inputs.allocation.host)
                                  : find_site(options.site, environment));
  inputs.self = path_of_self();
  return inputs;
}

/// Of all the processes that find the same, one says it: that of rank 0, or the one around srun.
bool speaks_for_job(const Allocation& allocation) {
  if (!allocation.identity) return true;
  return allocation.identity->rank == 0 && !allocation.environment.has(kStepRequest);
}

/// A variable that is not there to be handed on stops nobody, as with mpirun.
std::vector<std::string> unset_variables(const RunOptions& options,
                                         const Environment& environment) {
  std::vector<std::string> warnings;
  for (const VariableOption& variable : options.variables) {
    if (variable.value || environment.has(variable.name)) continue;
    warnings.push_back(format_text(
        "warning: -x {0}: {0} is not set here, the ranks do not get it\nhint: type -x {0}=value",
        variable.name));
  }
  return warnings;
}

/// What site and fabric want; an assumed value is never set without a word.
MachineEnvironment machine_of(const RunOptions& options, const Inputs& inputs,
                              const Placement& placement) {
  SiteFacts facts;
  facts.nodes = placement.node_count / placement.virtual_nodes;
  facts.gpus_per_node = placement.gpus_per_node;
  const Allocation& allocation = inputs.allocation;
  MachineEnvironment machine = read_machine(inputs.site, allocation, facts, options.assume);
  if (options.dry_run || (allocation.identity && allocation.identity->rank != 0)) return machine;
  for (const PlannedVariable& variable : machine.offered) {
    if (!variable.provenance.is_assumed() || allocation.environment.has(variable.name)) continue;
    say(format_text("--assume: {} offers {}={}, which is assumed: verify it", variable.origin,
                    variable.name, variable.value));
  }
  return machine;
}

/// Puts the paths of the programs in place of their names; an exit code where there is none.
int resolve_programs(const Environment& environment, std::vector<Command>& commands) {
  for (Command& command : commands) {
    auto found = find_program(command.arguments.front(), environment);
    if (const auto* problem = std::get_if<ProgramProblem>(&found)) {
      say(problem->message);
      return problem->exit_code;
    }
    command.program = std::get<std::string>(std::move(found));
  }
  return 0;
}

/// Tells the hvdrun around srun, which cannot know it, the step that it may have to signal.
void report_step(const Allocation& allocation) {
  const Environment& environment = allocation.environment;
  const auto job = environment.get("SLURM_JOB_ID");
  const auto step = environment.get("SLURM_STEP_ID");
  if (!environment.has(kStepRequest) || !job || !step || allocation.identity->rank != 0) return;
  std::fprintf(stderr, "%s%s.%s\n", kStepLine.data(), job->c_str(), step->c_str());
}

int supervise_job(const RunOptions& options, const Placement& placement,
                  const std::vector<Command>& commands, const std::string& marker,
                  LossPipe* losses) {
  SupervisorOptions supervision;
  supervision.style.from_srun = placement.way == Way::kSlurmShell;
  supervision.style.prefix = options.prefix.value_or(placement.size > 1);
  supervision.style.timestamp = options.timestamp;
  supervision.grace = options.grace;
  supervision.output_dir = options.output_dir;
  supervision.marker = std::string(launch_env::kJobMarker) + "=" + marker;
  supervision.verbose = options.verbose;
  const Result<int> code = supervise(commands, supervision, losses);
  return code.is_ok() ? code.value() : refuse(code.status());
}

int spawn(const RunOptions& options, const Inputs& inputs, const Placement& placement) {
  const Allocation& allocation = inputs.allocation;
  JobFacts job;
  std::unique_ptr<JobStore> store;
  std::optional<LossPipe> losses;
  if (placement.way != Way::kTask) {
    (void)block_handled_signals();  // Before any thread could take them.
    job.marker = new_marker();
  }
  if (placement.way == Way::kLocal) {
    auto started = JobStore::start();
    if (!started.is_ok()) return refuse(started.status());
    store = std::move(started).value();
    job.store = store->address();
    job.key = store->key();
    auto pipe = LossPipe::create();
    if (!pipe.is_ok()) return refuse(pipe.status());
    losses = std::move(pipe).value();
    job.losses = losses->name();
  }
  const EnvironmentPlan plan =
      plan_environment(options, allocation, inputs.machine, placement, job);
  std::vector<Command> commands =
      build_commands(options, placement, plan, allocation.environment, inputs.self);
  const int problem = resolve_programs(allocation.environment, commands);
  if (problem != 0) return problem;
  if (placement.way == Way::kTask) {
    report_step(allocation);
    exec_command(commands.front());
  }
  return supervise_job(options, placement, commands, job.marker, losses ? &*losses : nullptr);
}

/// The same decisions, with words in place of what only a running job knows.
int explain(const RunOptions& options, const Inputs& inputs, const Placement& placement) {
  const std::string chosen = "(chosen at start)";
  JobFacts job;
  if (placement.way == Way::kLocal) job = {chosen, chosen, "", chosen};
  if (placement.way != Way::kTask) job.marker = chosen;
  const Allocation& allocation = inputs.allocation;
  const EnvironmentPlan plan =
      plan_environment(options, allocation, inputs.machine, placement, job);
  const std::vector<Command> commands =
      build_commands(options, placement, plan, allocation.environment, inputs.self);
  // In an allocation this looks for srun: the program may lie on the nodes alone.
  const auto found = find_program(commands.front().arguments.front(), allocation.environment);
  const auto* problem = std::get_if<ProgramProblem>(&found);
  if (problem != nullptr) say("warning: " + problem->message);
  const auto describe = options.json ? describe_run_json : describe_run;
  return print_answer(describe(placement, plan, commands));
}

/// What the user is told before the ranks start.
void report(const RunOptions& options, const Placement& placement) {
  for (const std::string& warning : placement.warnings) say("warning: " + warning);
  for (const std::string& note : placement.notes) {
    if (options.verbose) say(note);
  }
  for (const RankPlacement& rank : placement.ranks) {
    if (options.bind.report) say(report_binding(placement.topology, rank));
  }
}

}  // namespace

int run_program(const RunOptions& options) {
  Result<Inputs> inputs = read_inputs(options);
  if (!inputs.is_ok()) return refuse(inputs.status());
  const Allocation& allocation = inputs.value().allocation;
  if (speaks_for_job(allocation)) {
    print_messages(inputs.value().site.warnings);
    print_messages(unset_variables(options, allocation.environment));
  }
  const Result<Placement> placement = place(options, allocation);
  if (!placement.is_ok()) return refuse(placement.status());
  inputs.value().machine = machine_of(options, inputs.value(), placement.value());
  if (options.dry_run) return explain(options, inputs.value(), placement.value());
  report(options, placement.value());
  return spawn(options, inputs.value(), placement.value());
}

}  // namespace hvd
