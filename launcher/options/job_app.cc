// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {
namespace {

constexpr int kMostNodes = 1 << 20;

void add_size_options(CLI::App& app, JobOptions& options) {
  const CLI::Range nodes(1, kMostNodes);
  const CLI::Range small(1, 1024);
  const auto add = [&app](const std::string& flags, std::optional<int>& value,
                          const std::string& what, const CLI::Range& range) {
    app.add_option(flags, value, what)->type_name("N")->check(range)->group("Size");
  };
  add("--gpus", options.gpus, "GPUs, one rank each: whole nodes, part of one, or an even split",
      nodes);
  add("-N,--nodes", options.nodes, "Nodes, all their GPUs", nodes);
  add("--gpus-per-node", options.gpus_per_node, "GPUs of each node (default: all)", small);
  add("--ntasks-per-node", options.ntasks_per_node, "Ranks of each node (default: one per GPU)",
      small);
  add("-c,--cpus-per-task", options.cpus_per_task,
      "Cores of each rank (default: its share of the node)", small);
}

void add_request_options(CLI::App& app, JobOptions& options) {
  const auto add = [&app](const std::string& flags, std::string& value, const std::string& what,
                          const std::string& type) {
    app.add_option(flags, value, what)->type_name(type)->group("Request, as sbatch takes it");
  };
  add("-t,--time", options.time, "Time limit (default: the site's)", "HH:MM:SS");
  add("-A,--account", options.account, "Account to charge", "NAME");
  add("-q,--qos", options.qos, "Quality of service (default: the site's)", "NAME");
  add("-C,--constraint", options.constraint, "Node features", "LIST");
  add("--mem", options.mem, "Memory of a node (default: the site's)", "SIZE");
  add("--switches", options.switches, "At most N switches; give up waiting after TIME", "N[@TIME]");
  add("-a,--array", options.array, "Array of jobs", "LIST");
  add("--signal", options.signal, "Signal before the time limit", "[B:]SIG[@S]");
  add("-o,--output", options.output, "File of the job's output", "FILE");
  add("-J,--job-name", options.name, "Name of the job (default: the program's)", "NAME");
  app.add_flag("--exclusive", options.exclusive, "Share no node with other jobs")
      ->group("Request, as sbatch takes it");
}

void add_script_options(CLI::App& app, JobOptions& options) {
  app.add_option("--modules", options.modules, "Modules to load after the site's")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Script");
  app.add_option("--container", options.container, "Image that the program runs in")
      ->type_name("IMAGE")
      ->group("Script");
  app.add_flag("--requeue", options.requeue, "Go back to the queue before the time limit")
      ->group("Script");
  app.add_option("--templates", options.templates, "Folder of your own templates")
      ->type_name("DIR")
      ->group("Script");
}

void add_submit_options(CLI::App& app, JobOptions& options) {
  app.add_option("--launch-dir", options.launch_dir,
                 "Folder of the job (default: hvdrun-jobs/NAME-DATE-N)")
      ->type_name("DIR")
      ->group("Submit");
  app.add_flag("--follow", options.follow, "Show queue and output until the job ends")
      ->group("Submit");
  app.add_flag("--parsable", options.parsable, "Print the job id alone")->group("Submit");
  app.add_flag("--dry-run", options.dry_run, "Print what would be submitted; submit nothing")
      ->group("Submit");
}

struct JobCommandText {
  JobAction action;
  std::string_view name;
  std::string what;
};

JobCommandText text_of(std::string_view name) {
  if (name == "script") {
    return {JobAction::kScript, name,
            "Prints a whole job script for a site: header, modules in the site's order, "
            "environment, and the line that starts the program."};
  }
  if (name == "submit") {
    return {
        JobAction::kSubmit, name,
        "Writes a whole job script to a launch directory, submits it and prints the job id. The "
        "job starts in the folder where submit is typed."};
  }
  return {JobAction::kHeader, name,
          "Prints the #SBATCH lines of a job for a site, with one rank per GPU. What does not fit "
          "the site (a time over the limit of a QoS, "
          "an account of another partition) is an error that says what does."};
}

}  // namespace

Result<CommandLine> parse_job(std::string_view name, const std::vector<std::string>& arguments) {
  const JobCommandText command = text_of(name);
  auto app = make_app(command.what, format_text("hvdrun {}", name), true);
  JobOptions options;
  options.action = command.action;
  app->add_option("--site", options.site, "Site id, or the path of a site file (default: detected)")
      ->type_name("SITE");
  app->add_option("-p,--partition", options.partition, "Partition (default: the site's)")
      ->type_name("PARTITION");
  add_size_options(*app, options);
  add_request_options(*app, options);
  if (command.action != JobAction::kHeader) add_script_options(*app, options);
  if (command.action == JobAction::kSubmit) add_submit_options(*app, options);
  app->add_flag("--interactive", options.interactive,
                command.action == JobAction::kSubmit ? "Run salloc in place of sbatch"
                                                     : "Print the salloc line instead");
  app->add_flag("--list", options.list, "Print the known sites and partitions");
  app->add_flag("--json", options.json, "Print --list as JSON")->needs("--list");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, name));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.command, program_of(*app, arguments, name));
  const bool needs_program = command.action != JobAction::kHeader && !options.interactive;
  if (needs_program && options.command.empty() && !options.list) {
    return usage(
        format_text("no program to run: type hvdrun {} [options] -- PROGRAM [arguments]", name),
        name);
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
