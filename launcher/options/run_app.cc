// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "launcher/options/app.h"
#include "launcher/options/parsers.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// Who a rank is and where it finds the others: hvdrun sets them for each, after all else.
constexpr std::array kSetByHvdrun{
    launch_env::kRank,      launch_env::kSize,     launch_env::kLocalRank, launch_env::kLocalSize,
    launch_env::kNode,      launch_env::kStore,    launch_env::kJobKey,    launch_env::kVirtualNode,
    launch_env::kJobMarker, launch_env::kLossPipe, launch_env::kMasterOf,  launch_env::kRankOf,
    launch_env::kProcess,
};

Status check_variable(const VariableOption& variable) {
  const bool is_ours =
      std::find(kSetByHvdrun.begin(), kSetByHvdrun.end(), variable.name) != kSetByHvdrun.end();
  if (!is_ours) return Status::ok();
  return error(Code::kInvalidArgument,
               "-x {0}: hvdrun sets {0} itself, for each rank its own; leave it out (-np says how "
               "many ranks there are)",
               variable.name);
}

Result<std::vector<VariableOption>> parse_variables(const std::vector<std::string>& texts) {
  std::vector<VariableOption> variables;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    VariableOption variable{text.substr(0, equals), std::nullopt};
    if (equals != std::string::npos) variable.value = text.substr(equals + 1);
    if (variable.name.empty() || variable.name.starts_with('-')) {
      return error(Code::kInvalidArgument,
                   "-x '{}' names no variable: type -x NAME or -x NAME=value", text);
    }
    HVD_TRY(check_variable(variable));
    // The last one counts, as for env: a wrapper may append its own.
    std::erase_if(variables,
                  [&](const VariableOption& other) { return other.name == variable.name; });
    variables.push_back(std::move(variable));
  }
  return variables;
}

/// Text of the flags that CLI11 cannot put into RunOptions itself.
struct RawRunFlags {
  std::vector<std::string> variables;
  std::string bind;
  bool smt = false;
  bool no_smt = false;
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

void add_bind_flags(CLI::App& app, RunOptions& options, RawRunFlags& raw) {
  const std::map<std::string, MemoryBind> memories{{"local", MemoryBind::kLocal},
                                                   {"none", MemoryBind::kNone}};
  const std::map<std::string, GpuVisibility> visibilities{{"all", GpuVisibility::kAll},
                                                          {"one", GpuVisibility::kOne}};
  app.add_option(
         "--bind", raw.bind,
         "Bind each rank to its share of the cores, near its GPU (an error where a share is "
         "too small); to the cores of one NUMA node or socket; to the CPU list of its local "
         "rank (map:0-9:10-19); or not. Never outside of the mask given. Without it: cores, "
         "where the rank is a Slurm task or has a GPU and each share is large enough")
      ->type_name("cores|numa|socket|none|map:LIST[:LIST...]")
      ->group("Placement");
  app.add_flag("--smt", raw.smt,
               "Use all hardware threads of each core (default: those of the mask)")
      ->group("Placement");
  app.add_flag("--no-smt", raw.no_smt, "Use one hardware thread of each core")
      ->group("Placement")
      ->excludes("--smt");
  app.add_option("--mem-bind", options.bind.memory,
                 "Take memory near the rank's CPUs first, or leave it alone (default: local where "
                 "the rank is bound and srun got no --mem-bind)")
      ->type_name("local|none")
      ->group("Placement")
      ->transform(CLI::CheckedTransformer(memories))
      ->default_str("");
  app.add_option("--gpu-visibility", options.gpu_visibility,
                 "Each rank sees all GPUs of its node (default), or its own alone")
      ->type_name("all|one")
      ->group("Placement")
      ->transform(CLI::CheckedTransformer(visibilities))
      ->default_str("");
  app.add_flag("--report-bindings", options.bind.report,
               "Print each rank's GPU, NIC, cores and a map of the node")
      ->group("Placement");
}

/// Puts together what the flags of binding say.
Status read_bind(const RawRunFlags& raw, BindOptions& bind) {
  if (!raw.bind.empty()) {
    const Status read = parse_bind(raw.bind, bind);
    if (!read.is_ok()) return usage(read.message(), "");
  }
  if (raw.smt) bind.smt = SmtUse::kAll;
  if (raw.no_smt) bind.smt = SmtUse::kOne;
  if (bind.policy == BindPolicy::kMap && bind.smt != SmtUse::kAsGiven) {
    return usage("--smt and --no-smt do not go with --bind map: the lists name the CPUs", "");
  }
  return Status::ok();
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
  app.add_option("-n,--np", options.ranks,
                 "Ranks, all on this machine, also inside an allocation. Without it: in a batch or "
                 "salloc shell what Slurm was asked for; elsewhere one per GPU, or 1")
      ->type_name("N")
      ->group("Ranks")
      ->check(CLI::Range(1, 65536));
  app.add_option("--nodes", options.nodes,
                 "With -np: split the ranks over N virtual nodes, which share no memory; without, "
                 "in a batch or salloc shell: nodes of the allocation to use")
      ->type_name("N")
      ->group("Ranks")
      ->check(CLI::Range(1, 65536));
  app.add_flag(
         "--nested", options.nested,
         "With -np inside a rank of another job: start a job of its own there, in each of its "
         "ranks (refused without this)")
      ->group("Ranks");
  app.add_option("-c,--cpus-per-rank", options.cpus_per_rank,
                 "CPUs for each rank (default: SLURM_CPUS_PER_TASK, else an even share)")
      ->type_name("N")
      ->group("Placement")
      ->check(CLI::Range(1, 65536));
  add_bind_flags(app, options, raw);
  app.add_option("-x", raw.variables,
                 "Give the ranks this variable; without a value, the shell's, if it is set. "
                 "Repeatable; wins over every other source. What tells a rank who it is (HVD_RANK "
                 "and its like) is refused")
      ->type_name("NAME[=VALUE]")
      ->group("Environment")
      ->allow_extra_args(false);
  app.add_option("--site", options.site,
                 "Site whose settings apply: id, alias or file (default: detected)")
      ->type_name("SITE")
      ->group("Environment");
  app.add_flag("--assume", options.assume,
               "Set the variables that a site or fabric marks as assumed, too, and say which")
      ->group("Environment");
  add_output_flags(app, options, raw);
  add_failure_flags(app, options, raw);
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
  HVD_TRY_ASSIGN(options.variables, parse_variables(raw.variables));
  HVD_TRY(read_bind(raw, options.bind));
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
