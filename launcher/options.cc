// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

namespace hvd {
namespace {

/// The help, with a usage line that ends in the program: everything from there on is the program's.
class ProgramFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return format_text("Usage: {} [OPTIONS] PROGRAM [ARGUMENTS...]\n", name);
  }
};

Status usage(std::string_view what, std::string_view command) {
  return error(Code::kInvalidArgument, "{}; try 'hvdrun{}{} --help'", what,
               command.empty() ? "" : " ", command);
}

std::unique_ptr<CLI::App> make_app(const std::string& description, const std::string& name,
                                   bool takes_program) {
  auto app = std::make_unique<CLI::App>(description, name);
  app->allow_windows_style_options(false);
  if (takes_program) app->formatter(std::make_shared<ProgramFormatter>());
  app->get_formatter()->column_width(34);
  return app;
}

/// Turns CLI11's exceptions into a Status, or the text of --help.
Result<std::optional<PrintAndExit>> parse_with(CLI::App& app, std::vector<std::string> arguments,
                                               std::string_view command) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 pops from the back.
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return std::optional(PrintAndExit{app.help()});
  } catch (const CLI::CallForVersion&) {
    return std::optional(PrintAndExit{app.version() + "\n"});
  } catch (const CLI::ParseError& failure) {
    std::string what = failure.what();
    // As the user typed it: CLI11 saw "--np".
    if (what.starts_with("--np:")) what.replace(0, 5, "-np:");
    return usage(what, command);
  }
  return std::optional<PrintAndExit>();
}

/// The flags end where the program begins; a leading dash there is a flag we do not have.
/// Taken from `arguments` as typed: CLI11 saw "-np" respelled, also in the program's part.
Result<std::vector<std::string>> program_of(const CLI::App& app,
                                            const std::vector<std::string>& arguments,
                                            std::string_view command) {
  const std::vector<std::string> rest = app.remaining();
  const bool marked = !rest.empty() && rest.front() == "--";
  const std::size_t count = rest.size() - (marked ? 1 : 0);
  std::vector<std::string> program(arguments.end() - static_cast<std::ptrdiff_t>(count),
                                   arguments.end());
  if (!marked && !program.empty() && program.front().starts_with("-")) {
    return usage(format_text("unknown option '{}'", program.front()), command);
  }
  return program;
}

Result<std::vector<VariableOption>> parse_variables(const std::vector<std::string>& texts) {
  std::vector<VariableOption> variables;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    VariableOption variable{text.substr(0, equals), std::nullopt};
    if (equals != std::string::npos) variable.value = text.substr(equals + 1);
    if (variable.name.empty()) {
      return error(Code::kInvalidArgument,
                   "-x '{}' names no variable: type -x NAME or -x NAME=value", text);
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

/// Text of the flags that CLI11 cannot put into RunOptions itself.
struct RawRunFlags {
  std::vector<std::string> variables;
  double grace_seconds = 10;
  bool prefix = false;
  bool no_prefix = false;
};

void add_run_flags(CLI::App& app, RunOptions& options, RawRunFlags& raw) {
  const std::map<std::string, BindPolicy> policies{{"cores", BindPolicy::kCores},
                                                   {"none", BindPolicy::kNone}};
  app.add_option("-n,--np", options.ranks, "Number of ranks (default: one per GPU, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  app.add_option("--nodes", options.nodes,
                 "With -np: virtual nodes to split the ranks over; else nodes of the job to use")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  app.add_option("-c,--cpus-per-rank", options.cpus_per_rank, "CPUs for each rank")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  app.add_option("--bind", options.bind, "Bind each rank to its share of the CPUs: cores or none")
      ->type_name("cores|none")
      ->transform(CLI::CheckedTransformer(policies))
      ->default_str("");
  app.add_option("-x", raw.variables, "Give the ranks this variable (repeatable)")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--site", options.site, "Site whose settings apply (default: detected)")
      ->type_name("SITE");
  app.add_option("--output-dir", options.output_dir, "Also write each rank's output to DIR")
      ->type_name("DIR");
  app.add_flag("--prefix", raw.prefix, "Put '[rank] ' before each line even for one rank");
  app.add_flag("--no-prefix", raw.no_prefix, "Put nothing before lines of output")
      ->excludes("--prefix");
  app.add_flag("--timestamp", options.timestamp, "Put the time before each line");
  app.add_option("--grace", raw.grace_seconds,
                 "Seconds that the other ranks have to end after one failed (default 10)")
      ->type_name("S")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_flag("--dry-run", options.dry_run, "Print what would be done; start nothing");
  app.add_flag("-v,--verbose", options.verbose, "Say what is decided and why");
}

Result<CommandLine> parse_run(const std::vector<std::string>& arguments, bool dry_run) {
  // "-np" is what every MPI user types; CLI11 knows one-letter short flags only.
  std::vector<std::string> respelled = arguments;
  std::replace(respelled.begin(), respelled.end(), std::string("-np"), std::string("--np"));
  auto app =
      make_app("Starts and supervises the ranks of a data-parallel program.", "hvdrun", true);
  app->prefix_command();
  app->set_version_flag("-V,--version", "hvdrun " HVD_VERSION);
  app->footer(
      "Other commands: hvdrun header (job headers for a site), hvdrun check (what works here),\n"
      "hvdrun explain (same as --dry-run). 'hvdrun COMMAND --help' tells more.");
  RunOptions options;
  RawRunFlags raw;
  add_run_flags(*app, options, raw);
  HVD_TRY_ASSIGN(auto print, parse_with(*app, std::move(respelled), ""));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.command, program_of(*app, arguments, ""));
  HVD_TRY_ASSIGN(options.variables, parse_variables(raw.variables));
  if (options.command.empty()) {
    return usage("no program to run: type hvdrun [options] PROGRAM [arguments]", "");
  }
  options.grace = std::chrono::milliseconds(static_cast<long long>(raw.grace_seconds * 1000));
  if (raw.prefix || raw.no_prefix) options.prefix = raw.prefix;
  options.dry_run = options.dry_run || dry_run;
  return CommandLine(std::move(options));
}

Result<CommandLine> parse_header(const std::vector<std::string>& arguments) {
  auto app = make_app("Prints a job header for a site.", "hvdrun header", true);
  app->prefix_command();
  HeaderOptions options;
  app->add_option("--site", options.site, "Site id, or the path of a site file")->type_name("SITE");
  app->add_option("-p,--partition", options.partition, "Partition (default: the site's)")
      ->type_name("NAME");
  app->add_option("--gpus", options.gpus, "GPUs, one rank each")->check(CLI::Range(1, 1 << 20));
  app->add_option("-N,--nodes", options.nodes, "Nodes, all their GPUs")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("-c,--cpus-per-task", options.cpus_per_task,
                  "Cores of each rank (default: the partition's)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("-C,--constraint", options.constraint, "Node features, as sbatch takes them")
      ->type_name("LIST");
  app->add_option("-q,--qos", options.qos, "Quality of service (default: the site's)")
      ->type_name("NAME");
  app->add_option("-o,--output", options.output, "File of the job's output, as sbatch takes it")
      ->type_name("FILE");
  app->add_option("-t,--time", options.time, "Time limit")->type_name("HH:MM:SS");
  app->add_option("-A,--account", options.account, "Account to charge")->type_name("NAME");
  app->add_option("-J,--job-name", options.name, "Name of the job")->type_name("NAME");
  app->add_flag("--list", options.list, "Print the known sites and partitions");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "header"));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.command, program_of(*app, arguments, "header"));
  return CommandLine(std::move(options));
}

Result<CommandLine> parse_check(const std::vector<std::string>& arguments) {
  auto app = make_app("Says what works here.", "hvdrun check", false);
  CheckOptions options;
  app->add_flag("--build", options.build, "What this build has, and why each missing part is");
  app->add_flag("--json", options.json, "Print it as JSON");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "check"));
  if (print) return CommandLine(*std::move(print));
  return CommandLine(options);
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "header") return parse_header(rest);
  if (command == "check") return parse_check(rest);
  if (command == "run") return parse_run(rest, false);
  if (command == "explain") return parse_run(rest, true);
  return parse_run(arguments, false);
}

}  // namespace hvd
