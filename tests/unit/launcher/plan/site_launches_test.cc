// SPDX-License-Identifier: Apache-2.0
// What a site wants of the launch reaches every way of starting: docs/reference/site-launches.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../golden.h"
#include "launcher/console/words.h"
#include "launcher/job/job_plan.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/command.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/plan/machine_environment.h"
#include "launcher/plan/placement.h"
#include "launcher/plan/starter.h"
#include "launcher/site/partition_facts.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/step_flags.h"

namespace hvd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

constexpr const char* kHeader = R"(# Launches of each site

What the site files say of the launch of a job, and what each way of starting gets of it: made by a test from `site_configs/`,
for two nodes with all their GPUs (the last column: one node). Options of your own and variables that you set win
(`SLURM_GPU_BIND` for `--gpu-bind`).

- **task**: `srun hvdrun python3 train.py`, a task of your own srun. The site's options of srun are yours to type. Variables that
  need one that srun tells no task of are set where srun's variable shows that it is there; else a warning of rank 0 names them, and they stay unset.
- **batch shell, salloc shell**: `hvdrun python3 train.py`. hvdrun adds the options to its srun and sets srun's variables. It leaves out
  `--kill-on-bad-exit`, as it ends the job itself after the grace, and the site's `--cpu-bind` under `--bind map:...`.
- **script, submit**: `hvdrun script`, `hvdrun submit`. The options are in the line of srun, the variables above it; what depends on the
  node is left to the hvdrun in each task.
- **mpirun**: `mpirun hvdrun python3 train.py`. There is no srun: what needs an option of it is left out.
- **one machine**: `hvdrun -np N python3 train.py`, as on a laptop; with `--site`, or on a node of the site.

| site | task | batch shell | salloc shell | script | submit | mpirun | one machine |
|---|---|---|---|---|---|---|---|
)";

constexpr const char* kOptionsHeader = R"(
Numbers are variables of the site that the ranks get, where a plugin of NCCL is found outside a container. "type X" is what hvdrun
says where it refuses. `submit` refuses a job without what the site demands.

## Options and variables of srun

| site | started by | options of srun | variables for srun | variables that need them |
|---|---|---|---|---|
)";

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "`" : ", `") + word + "`";
  return text;
}

Allocation shell(Variables more = {}) {
  Allocation allocation;
  more.insert({{"SLURM_JOB_ID", "7"}, {"SLURM_GPUS_ON_NODE", "4"}});
  allocation.environment = Environment(std::move(more));
  allocation.launch = SrunLaunch();
  allocation.host = "n1";
  allocation.hosts = {"n1", "n2"};
  return allocation;
}

SiteConfig site_of(const std::string& id) { return find_site(id, Environment()).value(); }

/// The line of srun, and what it gets besides the shell's environment.
struct Step {
  std::vector<std::string> words;
  std::vector<std::string> variables;
};

Step step_of_shell(const SiteConfig& site, const Allocation& allocation, RunOptions options = {}) {
  options.command = {"prog"};
  const Placement placement = place(options, allocation).value();
  SiteFacts facts;
  facts.nodes = 2;
  facts.gpus_per_node = 4;
  facts.step_network = allocation.environment.get("SLURM_NETWORK");
  start_step_here(site, facts);
  const EnvironmentPlan plan = plan_environment(
      options, allocation, plan_machine(site, {}, facts, false), placement, JobFacts());
  const Command srun =
      build_commands(options, placement, plan, site, allocation.environment, "hvdrun").at(0);
  return {srun.arguments, srun.variables};
}

std::vector<std::string> variables_for_srun(const SiteConfig& site) {
  SiteFacts facts;
  facts.nodes = 2;
  std::vector<std::string> texts;
  for (const PlannedVariable& variable : site_environment(site, facts)) {
    if (!variable.name.starts_with("SLURM_")) continue;
    texts.push_back(variable.name + "=" + variable.value);
  }
  return texts;
}

std::vector<std::string> left_unset_in_tasks(const SiteConfig& site) {
  SiteFacts facts;
  facts.nodes = 2;
  std::vector<std::string> names;
  for (const UnsetVariable& variable : plan_machine(site, {}, facts, false).unset) {
    if (variable.needs_step_network) names.push_back(variable.name);
  }
  return names;
}

/// A job of the first partition, as far as a node shows it.
SiteFacts facts_on(const SiteConfig& site, int nodes) {
  SiteFacts facts;
  facts.gpus_per_node = 4;
  if (!site.partitions.empty()) {
    const SitePartition& partition = site.partitions.front();
    facts = facts_of_partition(partition, std::max(1, partition.gpus_per_node));
  }
  facts.nodes = nodes;
  facts.nccl = "2.27.3";
  facts.plugin_found = true;
  facts.container = false;
  return facts;
}

using Names = std::set<std::string>;

/// The variables of the site that a rank has in the end; options of srun's are none of them.
Names of_ranks(const SiteConfig& site, const Allocation& allocation, const SiteFacts& facts,
               RunOptions options = {}) {
  options.command = {"prog"};
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan = plan_environment(
      options, allocation, plan_machine(site, {}, facts, false), placement, JobFacts());
  Names names;
  for (const auto* list : {&plan.all, &plan.by_task}) {
    for (const PlannedVariable& variable : *list) {
      const bool is_srun = variable.name.starts_with("SLURM_");
      if (variable.origin == "site " + site.id && !is_srun) names.insert(variable.name);
    }
  }
  return names;
}

Allocation task_of(const std::string& source) {
  Allocation allocation;
  Identity identity;
  identity.size = 8;
  identity.local_size = 4;
  identity.source = source;
  allocation.launch = TaskLaunch{identity};
  allocation.host = "n1";
  allocation.hosts = {"n1", "n2"};
  return allocation;
}

Allocation one_machine() {
  Allocation allocation;
  allocation.host = "n1";
  allocation.hosts = {"n1"};
  return allocation;
}

/// True where an environment of Slurm means a step of srun's.
bool starts_srun(Variables variables) {
  RunOptions options;
  options.command = {"prog"};
  variables.insert({{"SLURM_JOB_ID", "7"},
                    {"SLURM_JOB_NODELIST", "n[1-2]"},
                    {"SLURM_JOB_NUM_NODES", "2"},
                    {"SLURM_NNODES", "2"}});
  return read_allocation(options, Environment(std::move(variables))).value().srun() != nullptr;
}

struct ScriptOrRefusal {
  std::string refusal;  ///< Empty: there is a plan.
  JobPlan plan;
};

ScriptOrRefusal script_of(const SiteConfig& site, JobAction action) {
  JobOptions options{.nodes = 2, .time = "00:10:00", .account = site.account_example};
  options.action = action;
  options.command = {"prog"};
  if (site.partitions.empty()) options.gpus_per_node = 4;
  const Result<JobPlan> plan = plan_job(site, options);
  return plan.is_ok() ? ScriptOrRefusal{"", plan.value()}
                      : ScriptOrRefusal{plan.status().message(), {}};
}

/// Those that the script sets, and those that it leaves to hvdrun on the node.
Names of_script(const JobPlan& plan) {
  Names names;
  for (const PlannedVariable& variable : plan.environment) names.insert(variable.name);
  for (const std::string& text : plan.undecided) {
    for (const std::string& word : split(text.substr(0, text.find(" (")), ' ')) {
      names.insert(word.substr(0, word.find(',')));
    }
  }
  return names;
}

/// What one way of starting gets, for the page and for comparison.
struct Start {
  std::string cell;
  Names names;
};

bool may_start_srun(const SiteConfig& site) {
  Placement placement;
  placement.srun.emplace();
  return check_starter(site, placement).is_ok();
}

Start in_shell(const SiteConfig& site, const std::vector<std::string>& flags,
               const std::vector<std::string>& variables) {
  if (!may_start_srun(site)) {
    return {site.scheduler.kind == "none"
                ? "no Slurm"
                : format_text("type `{} hvdrun ...`", site.scheduler.launcher),
            {}};
  }
  SiteFacts facts = facts_on(site, 2);
  start_step_here(site, facts);
  const Names names = of_ranks(site, shell(), facts);
  const Step step = step_of_shell(site, shell());
  std::size_t options = 0;
  for (const std::string& flag : flags) {
    if (flag_name(flag) == "--kill-on-bad-exit") continue;
    EXPECT_THAT(step.words, Contains(flag));
    ++options;
  }
  for (const std::string& variable : variables) {
    EXPECT_THAT(step.variables, Contains(variable));
    ++options;
  }
  return {format_text("{}{}", names.size(), options > 0 ? " and options" : ""), names};
}

Start in_script(const SiteConfig& site, JobAction action, const std::vector<std::string>& flags) {
  const ScriptOrRefusal script = script_of(site, action);
  if (!script.refusal.empty()) {
    EXPECT_EQ(site.scheduler.kind, "none") << script.refusal;
    return {"no Slurm", {}};
  }
  EXPECT_EQ(script.plan.step.front(), site.scheduler.launcher);
  for (const std::string& flag : flags) EXPECT_THAT(script.plan.step, Contains(flag));
  Names names = of_script(script.plan);
  bool options = !flags.empty();
  for (auto name = names.begin(); name != names.end();) {
    const bool is_srun = name->starts_with("SLURM_");
    options = options || is_srun;
    name = is_srun ? names.erase(name) : std::next(name);
  }
  return {options ? "all and options" : "all", names};
}

/// Walks one site through every way, and returns its line of the table.
std::string walk(const SiteConfig& site) {
  const std::vector<std::string> flags = site.scheduler.launcher == "srun"
                                             ? site_step_flags(site, 2, true)
                                             : std::vector<std::string>();
  const std::vector<std::string> variables = variables_for_srun(site);
  const SiteFacts facts = facts_on(site, 2);
  const Names task = of_ranks(site, task_of("Slurm step"), facts);
  Names waiting;
  for (const UnsetVariable& variable : plan_machine(site, {}, facts, false).unset) {
    if (variable.needs_step_network && !task.contains(variable.name)) waiting.insert(variable.name);
  }
  Names all = task;
  all.insert(waiting.begin(), waiting.end());

  const Names mpirun = of_ranks(site, task_of("Open MPI"), facts);
  EXPECT_EQ(mpirun, task) << "an mpirun gives what a task without the option has";
  const Start batch = in_shell(site, flags, variables);
  EXPECT_EQ(batch.names, may_start_srun(site) ? all : Names()) << "a shell gives all";
  const Start script = in_script(site, JobAction::kScript, flags);
  const Start submit = in_script(site, JobAction::kSubmit, flags);
  EXPECT_EQ(script.names, submit.names);
  if (script.cell != "no Slurm") {
    EXPECT_THAT(script.names, IsSupersetOf(all)) << "a script sets all, or leaves it to the node";
  }
  RunOptions local;
  local.ranks = 2;
  const Names machine = of_ranks(site, one_machine(), facts_on(site, 1), local);
  const std::string wait =
      waiting.empty() ? "" : format_text(", {} need an option", waiting.size());
  return format_text("| `{}` | {}{} | {} | {} | {} | {} | {}{} | {} |\n", site.id, task.size(),
                     wait, batch.cell, batch.cell, script.cell, submit.cell, mpirun.size(),
                     waiting.empty() ? "" : format_text(", {} left out", waiting.size()),
                     machine.size());
}

/// The two kinds of shell are one way of starting.
TEST(SiteLaunches, ABatchShellAndASallocShellAreTheSame) {
  EXPECT_TRUE(starts_srun({{"SLURM_NODEID", "0"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_GTIDS", "0"},
                           {"SLURM_TASK_PID", "1"},
                           {"ENVIRONMENT", "BATCH"}}));
  EXPECT_TRUE(starts_srun({{"SLURM_SUBMIT_DIR", "/"}}));
}

TEST(SiteLaunches, ReachEveryWayOfStarting) {
  std::string page = kHeader;
  std::string options = kOptionsHeader;
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  for (const SiteEntry& entry : entries) {
    SCOPED_TRACE(entry.id);
    const SiteConfig site = site_of(entry.id);
    page += walk(site);
    const std::vector<std::string> flags = site_step_flags(site, 2, true);
    const std::vector<std::string> variables = variables_for_srun(site);
    const std::vector<std::string> needing = left_unset_in_tasks(site);
    options += format_text("| `{}` | {} | {} | {} | {} |\n", site.id, site.scheduler.launcher,
                           listed(flags), listed(variables), listed(needing));
  }
  expect_golden(HVD_DOCS_DIR "/reference/site-launches.md", page + options);
}

TEST(SiteLaunches, OfAShellLeaveWhatTheUserOrHvdrunDecides) {
  const SiteConfig perlmutter = site_of("perlmutter");
  EXPECT_THAT(step_of_shell(perlmutter, shell({{"SLURM_GPU_BIND", "closest"}})).words,
              Not(Contains(HasSubstr("--gpu-bind"))));
  RunOptions mapped;
  mapped.bind.policy = BindPolicy::kMap;
  const Step step = step_of_shell(perlmutter, shell(), mapped);
  EXPECT_THAT(step.words, Contains("--cpu-bind=none"));
  EXPECT_THAT(step.words, Not(Contains("--cpu-bind=cores")));
  EXPECT_THAT(step_of_shell(site_of("karolina"), shell()).words,
              Not(Contains("--kill-on-bad-exit=1")));
}

TEST(SiteLaunches, NoVariableIsSetWithoutTheOptionThatItNeeds) {
  const SiteConfig frontier = site_of("frontier");
  const auto in_task = [&](std::optional<std::string> network) {
    SiteFacts facts;
    facts.nodes = 2;
    facts.step_network = std::move(network);
    const MachineEnvironment machine = plan_machine(frontier, {}, facts, false);
    std::vector<std::string> names;
    for (const PlannedVariable& variable : machine.offered) names.push_back(variable.name);
    return names;
  };
  EXPECT_THAT(in_task(std::nullopt), Not(Contains("FI_CXI_RDZV_PROTO")));
  EXPECT_THAT(in_task("single_node_vni"), Not(Contains("FI_CXI_RDZV_PROTO")));
  EXPECT_THAT(in_task("job_vni,disable_rdzv_get"), Contains("FI_CXI_RDZV_PROTO"));
  EXPECT_THAT(left_unset_in_tasks(frontier), Contains("FI_CXI_RDZV_PROTO"));
}

TEST(StepFlags, AreWhatTheEnvironmentOfSrunDoesNotDecide) {
  const std::vector<std::string> flags{"--mpi=pmix", "--network", "a,b", "-q", "--cpu-bind=cores"};
  EXPECT_EQ(undecided_flags(flags, Environment()), flags);
  const Environment all(
      Variables{{"SLURM_MPI_TYPE", "pmi2"}, {"SLURM_NETWORK", "c"}, {"SLURM_CPU_BIND", "none"}});
  EXPECT_THAT(undecided_flags(flags, all), ElementsAre("-q"));
  EXPECT_THAT(undecided_flags({}, all), IsEmpty());
}

}  // namespace
}  // namespace hvd
