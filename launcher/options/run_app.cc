// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {
namespace {

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

}  // namespace

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

}  // namespace hvd
