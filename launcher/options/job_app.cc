// SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "launcher/console/words.h"
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"
#include "launcher/options/sbatch_option.h"
#include "launcher/options/sbatch_setting.h"

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
  add("-G,--gpus", options.gpus, "GPUs, one rank each: whole nodes, part of one, or an even split",
      nodes);
  add("-N,--nodes", options.nodes, "Nodes, all their GPUs", nodes);
  add("--gpus-per-node", options.gpus_per_node, "GPUs of each node (default: all)", small);
  add("--ntasks-per-node", options.ntasks_per_node, "Ranks of each node (default: one per GPU)",
      small);
  add("-c,--cpus-per-task", options.cpus_per_task,
      "Cores of each rank (default: its share of the node)", small);
}

/// Text of the options that CLI11 cannot put into JobOptions itself.
struct TypedSbatch {
  std::vector<std::string> settings;
  std::string exclusive;
};

void add_request_options(CLI::App& app, JobOptions& options, TypedSbatch& typed) {
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
  add("--signal", options.signal, "Signal before the time limit", "[RB:]SIG[@S]");
  add("-o,--output", options.output, "File of the job's output", "FILE");
  add("-J,--job-name", options.name, "Name of the job (default: the program's)", "NAME");
  app.add_option(
         "--sbatch", typed.settings,
         "Any other option of sbatch; also by its own name, as --reservation, --dependency, "
         "--mail-type, --exclude or -e. Repeatable")
      ->type_name("KEY[=VALUE]")
      ->group("Request, as sbatch takes it")
      ->allow_extra_args(false);
  app.add_flag("--exclusive", typed.exclusive,
               "Share no node with other jobs (or, with =user, with those of others)")
      ->group("Request, as sbatch takes it");
}

/// An option of sbatch that the parser knows and help does not list.
struct HiddenOption {
  std::string name;
  std::string value = {};
  CLI::Option* option = nullptr;
};

/// Every option of sbatch that is not there already, by its name and letter.
void add_sbatch_options(CLI::App& app, std::deque<HiddenOption>& hidden) {
  for (const SbatchOption& known : sbatch_options()) {
    const std::string long_name = format_text("--{}", known.name);
    if (known.use == SbatchUse::kProgram || app.get_option_no_throw(long_name) != nullptr) continue;
    const std::string letter = known.letter == 0 ? "" : format_text("-{}", known.letter);
    const bool is_free = !letter.empty() && app.get_option_no_throw(letter) == nullptr;
    const std::string names = is_free ? format_text("{},{}", letter, long_name) : long_name;
    HiddenOption& one = hidden.emplace_back(HiddenOption{std::string(known.name)});
    one.option = known.argument == OptionArgument::kRequired
                     ? app.add_option(names, one.value)->type_name("VALUE")
                     : app.add_flag(names, one.value);
    one.option->group("");
  }
}

/// Whether the value of this word is the next one; an unknown word ends the look at the options.
bool needs_next_word(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--")) {
    const CLI::Option* option = app.get_option_no_throw(word);
    return option != nullptr && option->get_items_expected_max() > 0;
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* option = app.get_option_no_throw(format_text("-{}", word[i]));
    if (option == nullptr) return false;
    if (option->get_items_expected_max() > 0) return i + 1 == word.size();
  }
  return false;
}

/// "--res" becomes "--reservation": sbatch takes the beginning of a name where it is the only one.
std::vector<std::string> spelled_out(const CLI::App& app, std::vector<std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& word = arguments[i];
    if (word == "--" || word.size() < 2 || word.front() != '-') break;
    const std::size_t equals = std::min(word.find('='), word.size());
    const bool is_unknown =
        word.starts_with("--") && app.get_option_no_throw(word.substr(0, equals)) == nullptr;
    if (is_unknown) {
      const SbatchOption* meant = find_sbatch_option(word.substr(2, equals - 2));
      if (meant == nullptr || meant->use == SbatchUse::kProgram) break;
      word = format_text("--{}{}", meant->name, word.substr(equals));
    }
    if (needs_next_word(app, word)) ++i;
  }
  return arguments;
}

/// Puts what was typed in sbatch's words where it belongs.
Status take_typed(const TypedSbatch& typed, const std::deque<HiddenOption>& hidden,
                  JobOptions& options) {
  std::vector<SbatchSetting> settings;
  for (const HiddenOption& one : hidden) {
    if (one.option->count() == 0) continue;
    const bool is_flag = one.option->get_items_expected_max() == 0;
    const bool has_none = is_flag && one.value == "true";
    settings.push_back({one.name, has_none ? "" : one.value});
  }
  for (const std::string& text : typed.settings) {
    HVD_TRY_ASSIGN(SbatchSetting setting, parse_sbatch_setting(text));
    settings.push_back(std::move(setting));
  }
  if (!typed.exclusive.empty()) {
    settings.push_back({"exclusive", typed.exclusive == "true" ? "" : typed.exclusive});
  }
  return take_sbatch_settings(settings, options);
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

/// The names in a list: spaces part them as commas do.
std::vector<std::string> names_in(const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  for (const std::string& part : parts) {
    for (std::string& name : split(part, ' ')) names.push_back(std::move(name));
  }
  return names;
}

/// What is about a job in the queue says nothing of an allocation in this terminal.
Status check_interactive(const JobOptions& options) {
  if (!options.interactive) return Status::ok();
  const std::string_view other = options.follow                ? "--follow (or --wait)"
                                 : options.parsable            ? "--parsable"
                                 : !options.launch_dir.empty() ? "--launch-dir"
                                                               : "";
  if (other.empty()) return Status::ok();
  return error(Code::kInvalidArgument,
               "--interactive contradicts {}: salloc runs in this terminal and writes no job; type "
               "one of them",
               other);
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
  TypedSbatch typed;
  std::deque<HiddenOption> hidden;
  add_request_options(*app, options, typed);
  if (command.action != JobAction::kHeader) add_script_options(*app, options);
  if (command.action == JobAction::kSubmit) add_submit_options(*app, options);
  app->add_flag("--interactive", options.interactive,
                command.action == JobAction::kSubmit ? "Run salloc in place of sbatch"
                                                     : "Print the salloc line instead");
  app->add_flag("--list", options.list, "Print the known sites and partitions");
  app->add_flag("--json", options.json, "Print --list as JSON")->needs("--list");
  add_sbatch_options(*app, hidden);
  const std::vector<std::string> spelled = spelled_out(*app, arguments);
  HVD_TRY_ASSIGN(auto print, parse_with(*app, spelled, name));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.command, program_of(*app, spelled, name));
  const Status taken = take_typed(typed, hidden, options);
  if (!taken.is_ok()) return usage(taken.message(), name);
  options.modules = names_in(options.modules);
  const Status fits = check_interactive(options);
  if (!fits.is_ok()) return usage(fits.message(), name);
  const bool needs_program = command.action != JobAction::kHeader && !options.interactive;
  if (needs_program && options.command.empty() && !options.list) {
    return usage(
        format_text("no program to run: type hvdrun {} [options] -- PROGRAM [arguments]", name),
        name);
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
