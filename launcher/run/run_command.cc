// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/run_command.h"

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/unique_fd.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/line_width.h"
#include "launcher/console/message.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/binding_report.h"
#include "launcher/plan/command.h"
#include "launcher/plan/dry_run.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"
#include "launcher/plan/starter.h"
#include "launcher/run/apart_note.h"
#include "launcher/run/attend.h"
#include "launcher/run/discovered_room.h"
#include "launcher/run/exec.h"
#include "launcher/run/handled_signals.h"
#include "launcher/run/host_discovery.h"
#include "launcher/run/job_store.h"
#include "launcher/run/program_path.h"
#include "launcher/run/recovery.h"
#include "launcher/run/restarts.h"
#include "launcher/run/slurm_room.h"
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
  JobNodes job_nodes;
};

Result<Inputs> read_inputs(const RunOptions& options) {
  Inputs inputs;
  const Environment environment = Environment::of_process();
  HVD_TRY_ASSIGN(inputs.allocation, read_allocation(options, environment));
  if (inputs.allocation.local() != nullptr && !options.host_discovery.empty()) {
    HVD_TRY_ASSIGN(inputs.allocation.slots,
                   await_slots(options, inputs.allocation.host, environment));
  }
  HVD_TRY_ASSIGN(inputs.site, options.site.empty()
                                  ? detect_site(environment, inputs.allocation.host)
                                  : find_site(options.site, environment));
  inputs.self = path_of_self();
  return inputs;
}

/// Of all the processes that find the same, one says it: that of rank 0, or the one around srun.
bool speaks_for_job(const Allocation& allocation) {
  const TaskLaunch* task = allocation.task();
  if (task == nullptr) return true;
  return task->identity.rank == 0 && !allocation.environment.has(kStepRequest);
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
  const TaskLaunch* task = allocation.task();
  if (options.dry_run || (task != nullptr && task->identity.rank != 0)) return machine;
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

/// A port of this machine that nobody uses, below those that the kernel gives out by itself: none
/// of its own choice takes it until the ranks listen there. Empty where there is none.
std::string free_port() {
  constexpr int kFirst = 20000;
  constexpr int kPorts = 10000;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    // Jobs that start at once look at different ones.
    const int port = kFirst + (::getpid() * 7 + i) % kPorts;
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const auto* raw = reinterpret_cast<const sockaddr*>(&address);
    if (socket.is_open() && ::bind(socket.get(), raw, sizeof address) == 0) {
      return std::to_string(port);
    }
  }
  return {};
}

/// Tells the hvdrun around srun, which cannot know it, the step that it may have to signal.
void report_step(const Environment& environment, const Identity& identity) {
  const auto job = environment.get("SLURM_JOB_ID");
  const auto step = environment.get("SLURM_STEP_ID");
  if (!environment.has(kStepRequest) || !job || !step || identity.rank != 0) return;
  std::fprintf(stderr, "%s%s.%s\n", kStepLine.data(), job->c_str(), step->c_str());
}

/// `marks` are what processes elsewhere carry that are the job's to end.
int supervise_job(const RunOptions& options, const Placement& placement,
                  const std::vector<Command>& commands, std::vector<std::string> marks,
                  const RankChannels& channels) {
  SupervisorOptions supervision;
  JobOutputOptions& output = supervision.output;
  output.style.from_srun = placement.srun.has_value();
  output.style.prefix = options.prefix.value_or(placement.processes() > 1);
  output.style.timestamp = options.timestamp;
  output.folds = options.fold;
  output.ranks = placement.processes();
  output.folder = options.output_dir;
  supervision.grace = options.grace;
  supervision.marks = std::move(marks);
  supervision.verbose = options.verbose;
  const Result<int> code = supervise(commands, supervision, channels);
  return code.is_ok() ? code.value() : refuse(code.status());
}

std::vector<Command> plan_commands(const RunOptions& options, const Inputs& inputs,
                                   const Placement& placement, const JobFacts& job) {
  const Allocation& allocation = inputs.allocation;
  const EnvironmentPlan plan =
      plan_environment(options, allocation, inputs.machine, placement, job);
  return build_commands(options, placement, plan, inputs.site, allocation.environment, inputs.self);
}

int become_rank(const RunOptions& options, const Inputs& inputs, const Placement& placement,
                const Identity& identity) {
  std::vector<Command> commands = plan_commands(options, inputs, placement, {});
  const int problem = resolve_programs(inputs.allocation.environment, commands);
  if (problem != 0) return problem;
  report_step(inputs.allocation.environment, identity);
  if (placement.elastic) {
    return attend(commands.front(), placement.ranks.front().rank, placement.this_host,
                  inputs.allocation.environment);
  }
  exec_command(commands.front());
}

/// With those that may come later.
int processes_of(const Placement& placement) {
  return placement.processes() + static_cast<int>(placement.elastic->reserve.size());
}

RosterPlan plan_roster(const Placement& placement) {
  return {.size = placement.size,
          .min_size = placement.elastic->min_size,
          .processes = processes_of(placement),
          .reserve = static_cast<int>(placement.elastic->reserve.size())};
}

/// What becomes of the processes of an elastic job that are lost.
struct LossPolicy {
  Recovery recovery;
  Restarts restarts;
};

/// `hosts`: by process, as far as known.
LossPolicy plan_losses(const RunOptions& options, const Placement& placement,
                       std::vector<std::string> hosts) {
  hosts.resize(static_cast<std::size_t>(processes_of(placement)));
  return {Recovery({.size = placement.size,
                    .min_size = placement.elastic->min_size,
                    .reserve = static_cast<int>(placement.elastic->reserve.size()),
                    .hosts = std::move(hosts),
                    .patience = options.loss_timeout}),
          Restarts(placement.elastic->restarts, placement.srun ? placement.node_count : 1)};
}

/// The interfaces under which the tasks of a step look for the store first.
std::string store_interfaces(const Inputs& inputs) {
  const Environment& environment = inputs.allocation.environment;
  for (const std::string_view name : {launch_env::kBootstrapInterface, launch_env::kInterface}) {
    if (const auto value = environment.get(name); value && !value->empty()) return *value;
  }
  for (const PlannedVariable& variable : inputs.machine.offered) {
    if (variable.name == launch_env::kBootstrapInterface) return variable.value;
  }
  return {};
}

/// Null: the job keeps its size.
Result<std::unique_ptr<Room>> open_room(const RunOptions& options, const Inputs& inputs,
                                        const Placement& placement) {
  if (placement.elastic && placement.srun) {
    HVD_TRY_ASSIGN(auto nodes, SlurmRoom::start(inputs.job_nodes, inputs.allocation, placement));
    return std::unique_ptr<Room>(std::move(nodes));
  }
  if (!inputs.allocation.slots) return std::unique_ptr<Room>();
  HVD_TRY_ASSIGN(auto room, DiscoveredRoom::start(options, inputs.allocation, placement));
  return std::unique_ptr<Room>(std::move(room));
}

int run_srun(const RunOptions& options, const Inputs& inputs, const Placement& placement,
             const JobEvents& events) {
  (void)block_handled_signals();  // Before any thread could take them.
  const Environment& environment = inputs.allocation.environment;
  JobFacts job;
  job.marker = new_marker();
  std::unique_ptr<JobStore> store;
  std::optional<LossPolicy> losses;
  if (placement.elastic) {
    auto started = JobStore::start(plan_roster(placement));
    if (!started.is_ok()) return refuse(started.status());
    store = std::move(started).value();
    job.store = store->addresses(store_interfaces(inputs));
    job.key = store->key();
    losses = plan_losses(options, placement, {});
  }
  std::vector<Command> commands = plan_commands(options, inputs, placement, job);
  const int problem = resolve_programs(environment, commands);
  if (problem != 0) return problem;
  auto room = open_room(options, inputs, placement);
  if (!room.is_ok()) return refuse(room.status());
  // The step's tasks here are not below us; a job that one of them submitted is not part of it.
  return supervise_job(options, placement, commands,
                       {std::string(launch_env::kJobMarker) + "=" + job.marker,
                        "SLURM_JOB_ID=" + environment.get("SLURM_JOB_ID").value_or("")},
                       {.store = store.get(),
                        .recovery = losses ? &losses->recovery : nullptr,
                        .restarts = losses ? &losses->restarts : nullptr,
                        .room = room.value().get(),
                        .events = events});
}

int run_locally(const RunOptions& options, const Inputs& inputs, const Placement& placement,
                const JobEvents& events) {
  (void)block_handled_signals();  // Before any thread could take them.
  auto store =
      placement.elastic ? JobStore::start(plan_roster(placement)) : JobStore::start(placement.size);
  if (!store.is_ok()) return refuse(store.status());
  auto losses = LossPipe::create();
  if (!losses.is_ok()) return refuse(losses.status());
  JobFacts job;
  job.store = store.value()->address();
  job.key = store.value()->key();
  job.marker = new_marker();
  // The ranks of an elastic job say whom they lost when they come back.
  if (!placement.elastic) job.losses = losses.value().name();
  job.master_port = free_port();
  std::vector<Command> commands = plan_commands(options, inputs, placement, job);
  const int problem = resolve_programs(inputs.allocation.environment, commands);
  if (problem != 0) return problem;
  // The ranks are below us, whatever they do; what carries the marker elsewhere is not ours to end.
  std::optional<LossPolicy> policy;
  if (placement.elastic) {
    std::vector<std::string> hosts;
    for (const Command& command : commands) hosts.push_back(command.host);
    policy = plan_losses(options, placement, std::move(hosts));
  }
  auto room = open_room(options, inputs, placement);
  if (!room.is_ok()) return refuse(room.status());
  const int code = supervise_job(options, placement, commands, {},
                                 {.losses = &losses.value(),
                                  .store = store.value().get(),
                                  .recovery = policy ? &policy->recovery : nullptr,
                                  .restarts = policy ? &policy->restarts : nullptr,
                                  .room = room.value().get(),
                                  .events = events});
  if (code == 0 && !store.value()->was_reached()) {
    print_messages(apart_note(placement.size, options.command));
  }
  return code;
}

/// The same decisions, with words in place of what only a running job knows.
int explain(const RunOptions& options, const Inputs& inputs, const Placement& placement) {
  const std::string chosen = "(chosen at start)";
  const Allocation& allocation = inputs.allocation;
  JobFacts job;
  if (allocation.local() != nullptr) job = {chosen, chosen, "", chosen, chosen};
  if (allocation.task() == nullptr) job.marker = chosen;
  const EnvironmentPlan plan =
      plan_environment(options, allocation, inputs.machine, placement, job);
  const std::vector<Command> commands =
      build_commands(options, placement, plan, inputs.site, allocation.environment, inputs.self);
  // In an allocation this looks for srun: the program may lie on the nodes alone.
  const auto found = find_program(commands.front().arguments.front(), allocation.environment);
  const auto* problem = std::get_if<ProgramProblem>(&found);
  if (problem != nullptr) say("warning: " + problem->message);
  if (options.json) return print_answer(describe_run_json(placement, plan, commands));
  const std::size_t width = line_width(STDOUT_FILENO, allocation.environment).value_or(0);
  return print_answer(describe_run(placement, plan, commands, width));
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

/// Variables that the ranks would have, did they know how their step was started.
void warn_of_step(const MachineEnvironment& machine) {
  std::string names;
  const UnsetVariable* first = nullptr;
  for (const UnsetVariable& variable : machine.unset) {
    if (!variable.needs_step_network) continue;
    names += (names.empty() ? "" : ", ") + variable.name;
    if (first == nullptr) first = &variable;
  }
  if (first == nullptr) return;
  say(format_text("warning: {}: {} left unset, as the step may lack what they need ({})",
                  first->origin, names, first->why_not));
}

}  // namespace

int run_program(const RunOptions& options, JobNodes job_nodes, const JobEvents& events) {
  Result<Inputs> inputs = read_inputs(options);
  if (!inputs.is_ok()) return refuse(inputs.status());
  inputs.value().job_nodes = std::move(job_nodes);
  const Allocation& allocation = inputs.value().allocation;
  if (allocation.task() != nullptr && (events.is_watched() || options.detach)) {
    return refuse(error(Code::kInvalidArgument,
                        "this is a task that a launcher has started, which hvdrun cannot watch; "
                        "leave out what starts it (srun, mpirun): hvdrun starts the ranks itself"));
  }
  if (speaks_for_job(allocation)) {
    print_messages(inputs.value().site.warnings);
    print_messages(unset_variables(options, allocation.environment));
  }
  const Result<Placement> placement = place(options, allocation);
  if (!placement.is_ok()) return refuse(placement.status());
  if (const Status status = check_starter(inputs.value().site, placement.value());
      !status.is_ok()) {
    return refuse(status);
  }
  if (const Status status = check_lone_size(options, allocation, placement.value());
      !status.is_ok()) {
    return refuse(status);
  }
  inputs.value().machine = machine_of(options, inputs.value(), placement.value());
  if (speaks_for_job(allocation)) warn_of_step(inputs.value().machine);
  if (options.dry_run) return explain(options, inputs.value(), placement.value());
  report(options, placement.value());
  return std::visit(
      Overloaded{[&](const LocalLaunch&) {
                   return run_locally(options, inputs.value(), placement.value(), events);
                 },
                 [&](const TaskLaunch& task) {
                   return become_rank(options, inputs.value(), placement.value(), task.identity);
                 },
                 [&](const SrunLaunch&) {
                   return run_srun(options, inputs.value(), placement.value(), events);
                 }},
      allocation.launch);
}

}  // namespace hvd
