// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_command.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>

#include "launcher/allocation.h"
#include "launcher/command.h"
#include "launcher/dry_run.h"
#include "launcher/environment_plan.h"
#include "launcher/exec.h"
#include "launcher/job_store.h"
#include "launcher/placement.h"
#include "launcher/site_catalog.h"
#include "launcher/site_environment.h"
#include "launcher/srun_report.h"
#include "launcher/supervisor.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailure = 1;

void say(const std::string& text) { std::fprintf(stderr, "hvdrun: %s\n", text.c_str()); }

int refuse(const Status& status) {
  say(status.message());
  return status.code() == Code::kInvalidArgument ? kUsageError : kFailure;
}

std::string path_of_self() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "hvdrun";
}

std::string new_marker() {
  std::uint64_t random = 0;
  (void)::getrandom(&random, sizeof random, 0);
  return format_text("{:016x}", random);
}

/// Signals go to the supervisor's descriptor; blocked before any thread could take them.
void block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&signals, signal);
  }
  (void)::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

struct Prepared {
  EnvironmentPlan plan;
  std::vector<Command> commands;
};

/// What the site, named or detected, wants set.
Result<std::vector<OfferedVariable>> site_variables(const RunOptions& options,
                                                    const Allocation& allocation,
                                                    const Placement& placement) {
  std::vector<OfferedVariable> offered;
  if (placement.way == Way::kSlurmShell) return offered;  // The hvdrun in each task sets them.
  const Environment& environment = allocation.environment;
  HVD_TRY_ASSIGN(const SiteConfig site, options.site.empty()
                                            ? detect_site(environment, allocation.host)
                                            : find_site(options.site, environment));
  const SiteFacts facts{placement.node_count / placement.virtual_nodes, placement.gpus_per_node};
  for (EnvironmentSetting& setting : site_environment(site, facts)) {
    offered.push_back({std::move(setting.name), std::move(setting.value), std::move(setting.origin),
                       std::move(setting.why)});
  }
  return offered;
}

/// Everything up to the last arrow: no effect yet.
Result<Prepared> prepare(const RunOptions& options, const Allocation& allocation,
                         const Placement& placement, const JobFacts& job) {
  Prepared prepared;
  HVD_TRY_ASSIGN(const auto offered, site_variables(options, allocation, placement));
  prepared.plan = plan_environment(options, allocation, placement, offered, job);
  prepared.commands =
      build_commands(options, placement, prepared.plan, allocation.environment, path_of_self());
  return prepared;
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
                  const std::vector<Command>& commands, const std::string& marker) {
  SupervisorOptions supervision;
  supervision.style.from_srun = placement.way == Way::kSlurmShell;
  supervision.style.prefix = options.prefix.value_or(placement.size > 1);
  supervision.style.timestamp = options.timestamp;
  supervision.grace = options.grace;
  supervision.output_dir = options.output_dir;
  supervision.marker = std::string(launch_env::kJobMarker) + "=" + marker;
  supervision.verbose = options.verbose;
  const Result<int> code = supervise(commands, supervision);
  return code.is_ok() ? code.value() : refuse(code.status());
}

int start(const RunOptions& options, const Allocation& allocation, const Placement& placement) {
  JobFacts job;
  if (placement.way != Way::kTask) {
    block_signals();
    job.marker = new_marker();
  }
  std::unique_ptr<JobStore> store;
  if (placement.way == Way::kLocal) {
    auto started = JobStore::start();
    if (!started.is_ok()) return refuse(started.status());
    store = std::move(started).value();
    job.store = store->address();
    job.key = store->key();
  }
  Result<Prepared> ready = prepare(options, allocation, placement, job);
  if (!ready.is_ok()) return refuse(ready.status());
  Prepared prepared = std::move(ready).value();
  const int problem = resolve_programs(allocation.environment, prepared.commands);
  if (problem != 0) return problem;
  if (placement.way == Way::kTask) {
    report_step(allocation);
    exec_command(prepared.commands.front());
  }
  return supervise_job(options, placement, prepared.commands, job.marker);
}

}  // namespace

int run_program(const RunOptions& options) {
  const Environment environment = Environment::of_process();
  const Result<Allocation> allocation = read_allocation(options, environment);
  if (!allocation.is_ok()) return refuse(allocation.status());
  const Result<Placement> placement = place(options, allocation.value());
  if (!placement.is_ok()) return refuse(placement.status());
  if (options.verbose && !options.dry_run) {
    for (const std::string& note : placement.value().notes) say(note);
  }
  if (!options.dry_run) return start(options, allocation.value(), placement.value());
  JobFacts job;
  if (placement.value().way == Way::kLocal) job = {"(chosen at start)", "(chosen at start)", ""};
  if (placement.value().way != Way::kTask) job.marker = "(chosen at start)";
  const Result<Prepared> ready = prepare(options, allocation.value(), placement.value(), job);
  if (!ready.is_ok()) return refuse(ready.status());
  std::fputs(describe_run(placement.value(), ready.value().plan, ready.value().commands).c_str(),
             stdout);
  return 0;
}

}  // namespace hvd
