// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_plan.h"

#include <algorithm>

#include "launcher/console/words.h"
#include "launcher/job/job_limits.h"
#include "launcher/job/job_size.h"
#include "launcher/plan/meeting.h"
#include "launcher/site/partition_facts.h"
#include "launcher/site/site_environment.h"
#include "launcher/site/step_flags.h"

namespace hvd {
namespace {

void append_unless_there(std::vector<std::string>& words, const std::vector<std::string>& more) {
  for (const std::string& word : more) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
}

/// In the site's order: "arch/h100" must come before what depends on it; the user's come last.
std::vector<std::string> plan_modules(const SiteConfig& site, const SitePartition& partition,
                                      const JobOptions& request) {
  std::vector<std::string> modules = partition.modules;
  append_unless_there(modules, site.modules);
  if (!site.mpi_module.empty()) append_unless_there(modules, {site.mpi_module});
  if (!request.container.empty() && !site.container.module.empty()) {
    append_unless_there(modules, {site.container.module});
  }
  append_unless_there(modules, request.modules);
  return modules;
}

void append_words(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// srun of Slurm 22.05 to 23.02 does not take --cpus-per-task over from sbatch.
std::vector<std::string> plan_step(const SiteConfig& site, const JobPlan& plan, const JobSize& size,
                                   const std::vector<std::string>& command) {
  std::vector<std::string> words{site.scheduler.launcher};
  if (site.scheduler.launcher == "srun") {
    if (plan.repeats_cores) words.push_back(format_text("--cpus-per-task={}", size.cores_per_task));
    append_words(words, site_step_flags(site, size.nodes, size.gpus_per_node > 0));
    append_words(words, plan.container.srun_flags);
  }
  // The path of hvdrun outside says nothing inside a container.
  words.push_back(plan.container.srun_flags.empty() ? plan.hvdrun : "hvdrun");
  append_words(words, plan.container.before_program);
  append_words(words, command);
  return words;
}

/// Empty: no GPUs.
std::string gpu_model(const SitePartition& partition, const JobSize& size) {
  if (size.gpus_per_node == 0) return "";
  return partition.gpu_model.empty() ? "unknown" : partition.gpu_model;
}

/// What is known of the job before it runs.
SiteFacts facts_of(const SiteConfig& site, const SitePartition& partition,
                   const JobOptions& request, const JobSize& size) {
  SiteFacts facts = facts_of_partition(partition, size.gpus_per_node);
  facts.nodes = size.nodes;
  facts.container = !request.container.empty();
  start_step_here(site, facts);
  return facts;
}

/// What follows from the site's fields on interfaces and names of hosts: the hvdrun in each task
/// sees which of the interfaces its node has, and where rank 0 is.
void append_meeting(const SiteConfig& site, const JobPlan& plan, const SiteFacts& facts,
                    std::vector<std::string>& texts) {
  MeetingFacts meeting;
  meeting.partition = facts.partition.value_or("");
  std::vector<std::string> names;
  for (const PlannedVariable& variable : offer_interfaces(site, facts, meeting, false).variables) {
    const bool is_set =
        std::any_of(plan.environment.begin(), plan.environment.end(),
                    [&](const PlannedVariable& other) { return other.name == variable.name; });
    if (!is_set) names.push_back(variable.name);
  }
  if (!names.empty()) {
    texts.push_back(format_text("{} (those of {} that it has)", joined(names, ", "),
                                joined(bootstrap_interfaces(site, meeting.partition), ",")));
  }
  if (facts.nodes < 2 || site.master_addr_suffix.empty()) return;
  if (provenance_of(site, "master_addr_suffix").is_assumed()) return;
  texts.push_back(format_text("MASTER_ADDR (the node of rank 0, with {} after its name)",
                              site.master_addr_suffix));
}

/// Variables that hang on what only the node shows: hvdrun decides there.
std::vector<std::string> undecided(const SiteConfig& site, const JobPlan& plan,
                                   const SiteFacts& facts) {
  std::vector<std::string> texts;
  for (const SiteVariable& variable : site.env) {
    const Result<Condition> condition = parse_condition(variable.when);
    if (!condition.is_ok() || variable.provenance.is_assumed()) continue;
    if (evaluate(condition.value(), facts).truth != Verdict::Truth::kUnknown) continue;
    append_unless_there(texts, {format_text("{} ({})", variable.name, variable.when)});
  }
  append_meeting(site, plan, facts, texts);
  return texts;
}

/// What the script is, in its first lines.
std::string title(const SiteConfig& site, const SitePartition& partition, const JobSize& size) {
  std::string text = site.name;
  if (!partition.name.empty()) text += ", partition " + partition.name;
  text += format_text(": {} rank{} on {} node{}", size.tasks(), size.tasks() == 1 ? "" : "s",
                      size.nodes, size.nodes == 1 ? "" : "s");
  if (size.gpus() == size.tasks()) text += ", one per GPU";
  return text + ". Written by hvdrun script.";
}

/// " (assumed: verify it)" where nobody documents that the site demands `field`.
std::string doubt(const SiteConfig& site, const std::string& field) {
  return provenance_of(site, field).is_assumed() ? " (assumed: verify it)" : "";
}

/// What the site asks of every job, and this one does not say.
void append_missing(const SiteConfig& site, const SitePartition& partition,
                    const JobDecisions& decided, std::vector<std::string>& notes) {
  if (site.account_required && decided.account.empty()) {
    notes.push_back(format_text("The site refuses a job without an account{}: add --{} ({}).",
                                doubt(site, "account/required"), site.account_flag,
                                site.account_example));
  }
  if (!decided.time.empty() || partition.name.empty()) return;
  const std::string time = missing_time(partition, decided.size.nodes);
  if (site.time_required) {
    notes.push_back(format_text("The site refuses a job without a time limit{}: add --time {}.",
                                doubt(site, "time_required"), time));
  } else if (!site.partitions.empty()) {
    notes.push_back(format_text(
        "Without --time a job gets the site's default, which is not known here: add --time {}.",
        time));
  }
}

/// Refuses to submit what sbatch is known to refuse.
Status check_demands(const SiteConfig& site, const SitePartition& partition,
                     const JobOptions& request, const JobDecisions& decided) {
  if (request.action != JobAction::kSubmit) return Status::ok();
  if (site.account_required && decided.account.empty() && doubt(site, "account/required").empty()) {
    return error(Code::kInvalidArgument,
                 "site {} refuses a job without an account: type --account "
                 "(they look like {})",
                 site.id, site.account_example);
  }
  if (site.time_required && decided.time.empty() && doubt(site, "time_required").empty()) {
    return error(Code::kInvalidArgument,
                 "site {} refuses a job without a time limit: type --time {}", site.id,
                 missing_time(partition, decided.size.nodes));
  }
  return Status::ok();
}

std::vector<std::string> plan_notes(const SiteConfig& site, const SitePartition& partition,
                                    const JobOptions& request, const JobDecisions& decided,
                                    const std::vector<std::string>& modules) {
  const JobSize& size = decided.size;
  std::vector<std::string> notes;
  if (request.action != JobAction::kHeader) notes.push_back(title(site, partition, size));
  if (!site.retired.empty()) notes.push_back("Retired: " + site.retired + ".");
  std::vector<std::string> used{"gpus/count", "constraint", "account_suffix"};
  if (site.scheduler.launcher != "ibrun") used.push_back("cores_per_task");
  std::vector<std::string> guesses = assumed_fields(partition, used);
  if (request.time.empty() && !site.time.empty() && provenance_of(site, "time").is_assumed()) {
    guesses.push_back("time");
  }
  if (!guesses.empty() && !partition.name.empty()) {
    std::string names;
    for (const std::string& field : guesses) names += (names.empty() ? "" : ", ") + field;
    notes.push_back("The site file assumes these values, so verify them: " + names + ".");
  }
  append_missing(site, partition, decided, notes);
  append_words(notes, limit_notes(partition, decided.qos, size));
  if (!size.note.empty()) notes.push_back(size.note);
  if (request.action == JobAction::kHeader && !modules.empty()) {
    std::string names;
    for (const std::string& module : modules) names += " " + module;
    notes.push_back(format_text("The script below must first: {}module load{}",
                                site.module_purge ? "module purge; " : "", names));
  }
  return notes;
}

/// Of what the site says of containers, that which a job takes and nobody documents.
void note_assumed_container(const SiteConfig& site, const JobOptions& request,
                            std::vector<std::string>& notes) {
  if (request.container.empty()) return;
  for (const std::string& field :
       assumed_fields(site, {"container/runtime", "container/flags", "container/module"})) {
    notes.push_back(format_text("The site file assumes {}: verify it.", field));
  }
}

Status check_scheduler(const SiteConfig& site) {
  const SiteScheduler& scheduler = site.scheduler;
  if (scheduler.kind == "none") {
    return error(Code::kInvalidArgument,
                 "site {} has no batch system, so there is no job script to write: start the ranks "
                 "in its container, with {} -np N hvdrun PROGRAM, or with hvdrun -np N PROGRAM on "
                 "one machine",
                 site.id, scheduler.launcher);
  }
  if (scheduler.kind != "slurm") {
    return error(
        Code::kInvalidArgument,
        "site {} runs {}, and hvdrun writes scripts for Slurm alone: start hvdrun in a job "
        "script of your own",
        site.id, scheduler.kind);
  }
  if (scheduler.launcher == "srun" || scheduler.launcher == "ibrun") return Status::ok();
  return error(Code::kInvalidArgument,
               "site {} starts tasks with {}, and hvdrun writes lines for srun and ibrun alone: "
               "start hvdrun in a job script of your own",
               site.id, scheduler.launcher);
}

}  // namespace

Result<JobPlan> plan_job(const SiteConfig& site, const JobOptions& request,
                         const std::string& hvdrun) {
  HVD_TRY(check_scheduler(site));
  HVD_TRY_ASSIGN(SitePartition partition, choose_partition(site, request));
  JobDecisions decided;
  HVD_TRY_ASSIGN(decided.size, plan_size(site, partition, request));
  decided.qos = plan_qos(partition, request, decided.size);
  if (partition.exclusive && shares_nodes(partition, decided.qos)) {
    partition.exclusive = false;
    HVD_TRY_ASSIGN(decided.size, plan_size(site, partition, request));
  }
  HVD_TRY_ASSIGN(decided.time, plan_time(site, partition, request, decided.size));
  HVD_TRY_ASSIGN(decided.account, plan_account(site, partition, request.account));
  HVD_TRY(check_demands(site, partition, request, decided));
  HVD_TRY_ASSIGN(decided.signal, plan_signal(request));
  JobPlan plan;
  plan.hvdrun = hvdrun;
  plan.partition = partition;
  plan.shell = site.shell;
  plan.directives = plan_directives(site, partition, request, decided);
  HVD_TRY(check_directives(site, plan.directives));
  plan.modules = plan_modules(site, partition, request);
  plan.purges_modules = site.module_purge && !plan.modules.empty();
  plan.notes = plan_notes(site, partition, request, decided, plan.modules);
  for (const SiteVariable& variable : site.env) {
    if (variable.when == "historical") plan.historical.push_back(variable);
  }
  const SiteFacts facts = facts_of(site, partition, request, decided.size);
  plan.environment = site_environment(site, facts);
  plan.undecided = undecided(site, plan, facts);
  plan.shape = choose_shape(request, decided.size,
                            partition.exclusive || site.gres_style == GresStyle::kNone);
  plan.signal = decided.signal.name;
  plan.grace_seconds = std::max(1, decided.signal.lead_seconds / 2);
  plan.container = plan_container({request.container, site.container.runtime, site.container.flags,
                                   gpu_model(partition, decided.size)});
  plan.step_notes = plan.container.notes;
  note_assumed_container(site, request, plan.step_notes);
  if (request.requeue && site.scheduler.launcher != "srun") {
    plan.step_notes.push_back(format_text(
        "Nobody tried whether {} hands {} on to the program: try it before you rely on it.",
        site.scheduler.launcher, plan.signal));
  }
  plan.repeats_cores = decided.size.cores_per_task > 0 && site.scheduler.launcher == "srun";
  if (!request.command.empty()) plan.step = plan_step(site, plan, decided.size, request.command);
  return plan;
}

}  // namespace hvd
