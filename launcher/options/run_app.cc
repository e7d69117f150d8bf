// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "launcher/options/app.h"
#include "launcher/options/launch_flags.h"
#include "launcher/options/parsers.h"

namespace hvd {
namespace {

/// Text of the flags that CLI11 cannot put into RunOptions itself.
struct RawRunFlags {
  LaunchFlags launch;
  double grace_seconds = 10;
  double loss_seconds = 120;
  bool prefix = false;
  bool no_prefix = false;
  bool fold = false;
  bool no_fold = false;
  bool version = false;
};

void add_output_flags(CLI::App& app, RunOptions& options, RawRunFlags& raw) {
  app.add_option(
         "--output-dir", options.output_dir,
         "Also write each rank's output to rank-N.out and rank-N.err in a new folder DIR/1, "
         "DIR/2, ..., which DIR/latest names")
      ->type_name("DIR")
      ->group("Output");
  app.add_flag("--prefix", raw.prefix, "Put '[rank] ' before each line even for one rank")
      ->group("Output");
  app.add_flag("--no-prefix", raw.no_prefix, "Put nothing before lines of output")
      ->group("Output")
      ->excludes("--prefix");
  app.add_flag("--fold", raw.fold,
               "Show equal lines of several ranks once, as '[0-3] line' (default: on terminals); a "
               "line waits 100 ms for those of the others")
      ->group("Output");
  app.add_flag("--no-fold", raw.no_fold, "Show each line of each rank")
      ->group("Output")
      ->excludes("--fold");
  app.add_flag("--timestamp", options.timestamp, "Put the time before each line")->group("Output");
}

void add_failure_flags(CLI::App& app, RunOptions& options, RawRunFlags& raw) {
  app.add_option("--spares", options.spares,
                 "N processes that start the program, and wait in hvd.init() until one takes the "
                 "place of a rank that was lost: N more with -np, N of the tasks in an "
                 "allocation. For programs with hvd.elastic.run")
      ->type_name("N")
      ->group("Failure")
      ->check(CLI::Range(1, 65536));
  app.add_option("--min-np", options.min_ranks,
                 "The job goes on with as few ranks, where ranks are lost and no spare is left "
                 "(default: as many as at the start)")
      ->type_name("N")
      ->group("Failure")
      ->check(CLI::Range(1, 65536));
  app.add_option("--max-np", options.max_ranks,
                 "The job grows up to N ranks, where hosts come (--host-discovery-script; nodes of "
                 "the job of Slurm) (default: as many as at the start)")
      ->type_name("N")
      ->group("Failure")
      ->check(CLI::Range(1, 65536));
  app.add_option("--host-discovery-script", options.host_discovery,
                 "A command that prints HOST:SLOTS lines, called each second: the job has as many "
                 "ranks as this machine has slots, from --min-np to --max-np")
      ->type_name("COMMAND")
      ->group("Failure");
  app.add_option("--slots-per-host", options.slots_per_host,
                 "Slots of a host for which the discovery script says no number (1)")
      ->type_name("N")
      ->group("Failure")
      ->check(CLI::Range(1, 65536));
  app.add_option("--restarts", options.restarts,
                 "Start a lost process again where it was, N times at most in the whole job; it "
                 "takes a free rank as a spare does")
      ->type_name("N")
      ->group("Failure")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--loss-timeout", raw.loss_seconds,
                 "With the options above: seconds that ranks which come back after a loss wait "
                 "for one which does not, and which is then killed (120)")
      ->type_name("S")
      ->group("Failure")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--grace", raw.grace_seconds,
                 "Seconds that the other ranks have to end by themselves after one failed (10); "
                 "then SIGTERM, and 5 s later SIGKILL")
      ->type_name("S")
      ->group("Failure")
      ->check(CLI::Range(0.0, 86400.0));
}

void add_run_flags(CLI::App& app, RunOptions& options, RawRunFlags& raw) {
  add_launch_flags(app, options, raw.launch);
  add_output_flags(app, options, raw);
  add_failure_flags(app, options, raw);
  app.add_flag("--detach", options.detach,
               "Start the job in the background, with its output in a file: it outlives this "
               "terminal; 'hvdrun attach' watches it, and ends it")
      ->group("Output");
  app.add_flag("--dry-run", options.dry_run,
               "Print placement, environment with origins, and commands; start nothing")
      ->group("Other");
  app.add_flag("--json", options.json,
               "Print what --dry-run or --version prints as JSON; start nothing")
      ->group("Other");
  app.add_flag("-v,--verbose", options.verbose, "Say what is decided and why")->group("Other");
}

}  // namespace

Result<CommandLine> parse_run(const std::vector<std::string>& arguments, bool dry_run) {
  // "-np" is what every MPI user types; CLI11 knows one-letter short flags only.
  std::vector<std::string> respelled = arguments;
  std::replace(respelled.begin(), respelled.end(), std::string("-np"), std::string("--np"));
  const std::string command = dry_run ? "explain" : "run";
  auto app = make_app(
      dry_run ? "Prints what hvdrun would do, and why: who the ranks are and where they run, every "
                "variable with its origin, and the commands. Starts nothing."
              : "Starts and supervises the ranks of a data-parallel program. In a task of srun it "
                "prepares the task it is and becomes the program; in a batch or salloc shell it "
                "builds and supervises the srun that does so on every node; elsewhere it starts "
                "the ranks itself on this machine.",
      "hvdrun", true);
  RunOptions options;
  RawRunFlags raw;
  add_run_flags(*app, options, raw);
  app->add_flag("-V,--version", raw.version,
                "Print version and revision; with -v also the libraries found here")
      ->group("Other");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, std::move(respelled), command));
  if (print) return CommandLine(*std::move(print));
  if (raw.version) return CommandLine(VersionOptions{options.verbose, options.json});
  HVD_TRY_ASSIGN(options.command, program_of(*app, arguments, command));
  HVD_TRY(read_launch_flags(raw.launch, options));
  if (options.command.empty()) {
    return usage("no program to run: type hvdrun [options] PROGRAM [arguments]", command);
  }
  if (std::isnan(raw.grace_seconds)) {  // which is in every range
    return usage("--grace: 'nan' is not a number; type one from 0 to 86400", command);
  }
  if (std::isnan(raw.loss_seconds)) {
    return usage("--loss-timeout: 'nan' is not a number; type one from 0 to 86400", command);
  }
  options.grace = std::chrono::milliseconds(static_cast<long long>(raw.grace_seconds * 1000));
  options.loss_timeout = std::chrono::milliseconds(static_cast<long long>(raw.loss_seconds * 1000));
  if (raw.prefix || raw.no_prefix) options.prefix = raw.prefix;
  if (raw.fold || raw.no_fold) options.fold = raw.fold;
  options.dry_run = options.dry_run || options.json || dry_run;
  return CommandLine(std::move(options));
}

}  // namespace hvd
