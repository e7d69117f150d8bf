// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_flags.h"

#include <algorithm>
#include <array>
#include <map>

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

void add_bind_flags(CLI::App& app, RunOptions& options, LaunchFlags& raw) {
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
Status read_bind(const LaunchFlags& raw, BindOptions& bind) {
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

}  // namespace

void add_launch_flags(CLI::App& app, RunOptions& options, LaunchFlags& raw) {
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
}

Status read_launch_flags(const LaunchFlags& raw, RunOptions& options) {
  HVD_TRY_ASSIGN(options.variables, parse_variables(raw.variables));
  return read_bind(raw, options.bind);
}

}  // namespace hvd
