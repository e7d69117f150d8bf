// SPDX-License-Identifier: Apache-2.0
#include "topology/identity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "topology/hostlist.h"
#include "topology/launch_source.h"
#include "topology/task_map.h"

namespace hvd {
namespace {

constexpr long long kMaxRanks = 1LL << 24;
/// Above are interactive, batch and extern steps, which are not launched tasks.
constexpr long long kMaxStepId = 0xfffffff0LL;

constexpr std::string_view kSlurmLayout = "SLURM_STEP_TASKS_PER_NODE";

Status read(const Environment& environment, std::string_view name, long long lowest, int& value) {
  if (name.empty()) return Status::ok();
  HVD_TRY_ASSIGN(const auto number, environment.get_int(name, lowest, kMaxRanks));
  if (number) value = static_cast<int>(*number);
  return Status::ok();
}

/// The variables of a step outlive it in the shell of a salloc or sbatch that a task of it called.
/// `srun --preserve-env` looks the same, so neither can be taken for the other.
Status check_left_over(const Environment& environment, const std::string& map) {
  const auto job = environment.get("SLURM_TASKS_PER_NODE");
  if (!job || *job == map) return Status::ok();
  return error(Code::kInvalidArgument,
               "{}='{}' and SLURM_TASKS_PER_NODE='{}' disagree: either this shell of job {} "
               "inherited the variables of the step that it was submitted from (then type `unset "
               "SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NUM_TASKS`), or srun was given "
               "--preserve-env (then leave it out)",
               kSlurmLayout, map, *job, environment.get("SLURM_JOB_ID").value_or("?"));
}

/// How to start one step over all parts of a heterogeneous job, where that may be the matter.
std::string heterogeneous_hint(const Environment& environment) {
  const auto parts = environment.get_int("SLURM_HET_SIZE", 2, kMaxRanks);
  if (!parts.is_ok() || !parts.value()) return {};
  return format_text(
      "; this job is heterogeneous: start one step over all {} parts with `srun --het-group=0-{} "
      "hvdrun PROGRAM`",
      *parts.value(), *parts.value() - 1);
}

/// What Slurm says in words of its own: how many tasks share my node.
Status read_slurm_layout(const Environment& environment, IdentityClaim& claim) {
  const auto map = environment.get(kSlurmLayout);
  if (!map) return Status::ok();
  auto parsed = parse_task_map(*map);
  if (!parsed.is_ok()) return parsed.status().with_context(kSlurmLayout);
  const std::vector<int>& tasks = parsed.value();
  long long sum = 0;
  for (const int count : tasks) sum += count;
  if (sum != claim.size) {
    return error(Code::kInvalidArgument,
                 "{}='{}' adds up to {} tasks, SLURM_STEP_NUM_TASKS is {}{}", kSlurmLayout, *map,
                 sum, claim.size, heterogeneous_hint(environment));
  }
  HVD_TRY(check_left_over(environment, *map));
  if (claim.node >= static_cast<int>(tasks.size())) {
    return error(Code::kInvalidArgument, "SLURM_NODEID={} is not a node of {}='{}', which has {}",
                 claim.node, kSlurmLayout, *map, tasks.size());
  }
  claim.node_count = static_cast<int>(tasks.size());
  if (claim.node >= 0) claim.local_size = tasks[static_cast<std::size_t>(claim.node)];
  const auto list = environment.get("SLURM_STEP_NODELIST");
  if (!list) return Status::ok();
  auto hosts = expand_hostlist(*list);
  if (!hosts.is_ok()) return hosts.status().with_context("SLURM_STEP_NODELIST");
  if (hosts.value().size() != tasks.size()) {
    return error(Code::kInvalidArgument, "SLURM_STEP_NODELIST='{}' has {} nodes, {}='{}' has {}",
                 *list, hosts.value().size(), kSlurmLayout, *map, tasks.size());
  }
  return Status::ok();
}

/// True where SLURM_STEP_NODELIST names a node that is not of this job: the step is another job's.
/// In a heterogeneous job the plain list may be that of one part.
bool step_is_elsewhere(const Environment& environment) {
  const auto step = environment.get("SLURM_STEP_NODELIST");
  const auto job = environment.get("SLURM_JOB_NODELIST");
  if (!step || !job || *step == *job || environment.has("SLURM_HET_SIZE")) return false;
  const auto step_hosts = expand_hostlist(*step);
  auto job_hosts = expand_hostlist(*job);
  if (!step_hosts.is_ok() || !job_hosts.is_ok()) return false;
  std::vector<std::string>& hosts = job_hosts.value();
  std::sort(hosts.begin(), hosts.end());
  return !std::all_of(step_hosts.value().begin(), step_hosts.value().end(),
                      [&](const std::string& host) {
                        return std::binary_search(hosts.begin(), hosts.end(), host);
                      });
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// True where a PMI server's name for its job ("slurm.pmix.JOB.STEP", "JOB.STEP" or "JOB") is
/// another step than the one of SLURM_*: srun --mpi=none passes on what `srun --mpi=pmix --pty
/// bash` was given. Names of another form are not judged.
bool serves_another_step(const LaunchSource& source, const Environment& environment) {
  constexpr std::string_view kPrefix = "slurm.pmix.";
  if (source.name != kPmix && source.name != kPmi) return false;
  const auto served = environment.get(source.name == kPmix ? "PMIX_NAMESPACE" : "PMI_JOBID");
  const auto job = environment.get("SLURM_JOB_ID");
  if (!served || !job || environment.has("SLURM_HET_SIZE")) return false;
  std::string_view name = *served;
  if (source.name == kPmix) {
    if (!name.starts_with(kPrefix)) return false;
    name.remove_prefix(kPrefix.size());
  }
  const std::string_view served_job = name.substr(0, name.find('.'));
  name.remove_prefix(std::min(served_job.size() + 1, name.size()));
  if (!is_number(served_job)) return false;
  if (served_job != *job) return true;
  const auto step = environment.get("SLURM_STEP_ID");
  return is_number(name) && in_slurm_step(environment) && step && name != *step;
}

/// True for what Open MPI 4 writes into its own process where MPI_Init found no launcher: rank 0 of
/// a numbered job of one, by a server of its own. Its mpirun says OMPI_COMM_WORLD_RANK as well.
bool is_mpi_singleton(const LaunchSource& source, const Environment& environment) {
  return source.name == kPmix && !environment.has("OMPI_COMM_WORLD_RANK") &&
         is_number(environment.get("PMIX_NAMESPACE").value_or(""));
}

/// An empty value, as a script's `export RANK=$OTHER` may leave it, tells nothing.
bool tells(const Environment& environment, std::string_view name) {
  return !environment.get(name).value_or("").empty();
}

bool speaks(const LaunchSource& source, const Environment& environment) {
  if (!tells(environment, source.rank)) return false;
  if (source.name == kSlurmStep) return in_slurm_step(environment);
  if (!source.size.empty() && !tells(environment, source.size)) return false;
  return source.mark.empty() || tells(environment, source.mark);
}

/// True where hvdrun has set RANK and its like for a task of another step, from which this process
/// inherited them; or for one of no step, whose launcher tells the rank by variables of its own.
bool is_inherited(const LaunchSource& source, const Environment& environment) {
  if (source.rank != "RANK" || !source.mark.empty()) return false;
  const RankMark mark = read_rank_mark(environment);
  return mark.is_right && (mark.step.empty() || mark.step != slurm_step_name(environment));
}

/// "PMI_RANK (MPICH)"; for what Slurm tells in its layout, that variable.
std::string variable(const LaunchSource& source, std::string_view name) {
  return format_text("{} ({})", name.empty() ? kSlurmLayout : name, source.name);
}

Status check_range(const LaunchSource& source, const IdentityClaim& claim) {
  if (claim.size > 0 && claim.rank >= claim.size) {
    return error(Code::kInvalidArgument, "{}={} is not below {}={}", source.rank, claim.rank,
                 source.size, claim.size);
  }
  if (claim.local_size > 0 && claim.local_rank >= claim.local_size) {
    return error(Code::kInvalidArgument, "{}={} is not below the {} ranks of its node by {}",
                 source.local_rank, claim.local_rank, claim.local_size,
                 variable(source, source.local_size));
  }
  return Status::ok();
}

Result<IdentityClaim> read_claim(const LaunchSource& source, const Environment& environment) {
  IdentityClaim claim;
  claim.source = source.name;
  HVD_TRY(read(environment, source.rank, 0, claim.rank));
  HVD_TRY(read(environment, source.size, 1, claim.size));
  HVD_TRY(read(environment, source.local_rank, 0, claim.local_rank));
  HVD_TRY(read(environment, source.local_size, 1, claim.local_size));
  HVD_TRY(read(environment, source.node, 0, claim.node));
  HVD_TRY(read(environment, source.node_count, 1, claim.node_count));
  if (source.name == kSlurmStep) HVD_TRY(read_slurm_layout(environment, claim));
  HVD_TRY(check_range(source, claim));
  claim.outer = serves_another_step(source, environment) || is_mpi_singleton(source, environment) ||
                is_inherited(source, environment);
  return claim;
}

struct Field {
  int IdentityClaim::*value;
  std::string_view LaunchSource::*name;
};
constexpr Field kSize{&IdentityClaim::size, &LaunchSource::size};
constexpr Field kLocalRank{&IdentityClaim::local_rank, &LaunchSource::local_rank};
constexpr Field kLocalSize{&IdentityClaim::local_size, &LaunchSource::local_size};
constexpr Field kNode{&IdentityClaim::node, &LaunchSource::node};
constexpr Field kNodeCount{&IdentityClaim::node_count, &LaunchSource::node_count};

/// Node numbers are not compared: launchers count nodes in orders of their own.
constexpr std::array<Field, 5> kCompared{{
    {&IdentityClaim::rank, &LaunchSource::rank},
    kSize,
    kLocalRank,
    kLocalSize,
    kNodeCount,
}};

Status compare(const LaunchSource& a, const IdentityClaim& first, const LaunchSource& b,
               const IdentityClaim& second) {
  for (const Field& field : kCompared) {
    const int x = first.*field.value;
    const int y = second.*field.value;
    if (x < 0 || y < 0 || x == y) continue;
    return error(Code::kInvalidArgument,
                 "two launchers disagree about this process: {} is {}, {} is {}; unset the "
                 "variables of the one that did not start it",
                 variable(a, a.*field.name), x, variable(b, b.*field.name), y);
  }
  return Status::ok();
}

/// True where `source` may be around `inner`. hvdrun clears what it replaces: what contradicts it
/// is a real conflict.
bool may_surround(const LaunchSource& source, const LaunchSource& inner) {
  return inner.layer != LauncherLayer::kHvdrun && source.layer > inner.layer;
}

/// The claims so far, each with its row of the table.
struct Heard {
  std::vector<const LaunchSource*> sources;
  std::vector<IdentityClaim> claims;
};

/// Compares a new claim with those before it; sets it aside where it may be a step around them.
Status cross_check(const LaunchSource& source, IdentityClaim& claim, const Heard& heard) {
  for (std::size_t i = 0; i < heard.claims.size() && !claim.outer; ++i) {
    if (heard.claims[i].outer) continue;
    Status same = compare(*heard.sources[i], heard.claims[i], source, claim);
    if (same.is_ok()) continue;
    if (!may_surround(source, *heard.sources[i])) return same;
    claim.outer = true;
  }
  return Status::ok();
}

/// Reads and checks one row. What cannot be read is an error, unless it is around another launcher.
Result<IdentityClaim> hear(const LaunchSource& source, const Environment& environment,
                           const Heard& heard) {
  auto claim = read_claim(source, environment);
  if (claim.is_ok()) {
    HVD_TRY(cross_check(source, claim.value(), heard));
    return claim;
  }
  for (std::size_t i = 0; i < heard.claims.size(); ++i) {
    if (heard.claims[i].outer || !may_surround(source, *heard.sources[i])) continue;
    IdentityClaim around;
    around.source = source.name;
    around.outer = true;
    return around;
  }
  return claim;
}

void complete(int& field, int claimed) {
  if (field < 0) field = claimed;
}

/// What follows from the number of nodes, each of which has a rank.
void deduce_place(Identity& identity) {
  if (identity.local_size < 0 && identity.node_count == 1 && identity.size > 0) {
    identity.local_size = identity.size;
  }
  if (identity.local_size < 0 && identity.node_count == identity.size) identity.local_size = 1;
  if (identity.local_size == 1) complete(identity.local_rank, 0);
}

/// "PMI_LOCAL_SIZE (PMI) is 2", or what a number that no variable tells was deduced from.
std::string origin(const Field& field, int value, const Identity& identity, const Heard& heard) {
  for (std::size_t i = 0; i < heard.claims.size(); ++i) {
    const LaunchSource& source = *heard.sources[i];
    if (heard.claims[i].outer || heard.claims[i].*field.value != value) continue;
    return format_text("{} is {}", variable(source, source.*field.name), value);
  }
  return format_text("{} and {} leave {} to a node", origin(kSize, identity.size, identity, heard),
                     origin(kNodeCount, identity.node_count, identity, heard), value);
}

/// Each launcher is right in itself, but may have filled in what another one left open.
Status check_whole(const Identity& identity, const Heard& heard) {
  struct Limit {
    bool broken;
    Field field;
    int value;
    Field bound;
    int bound_value;
  };
  const std::array<Limit, 3> limits{{
      {identity.local_size > 0 && identity.local_rank >= identity.local_size, kLocalRank,
       identity.local_rank, kLocalSize, identity.local_size},
      {identity.node_count > 0 && identity.node >= identity.node_count, kNode, identity.node,
       kNodeCount, identity.node_count},
      {identity.size > 0 && identity.local_size > identity.size, kLocalSize, identity.local_size,
       kSize, identity.size},
  }};
  for (const Limit& limit : limits) {
    if (!limit.broken) continue;
    return error(Code::kInvalidArgument,
                 "the variables of this process do not fit together: {}, {}; unset those of the "
                 "launcher that did not start it, or that an earlier job left behind",
                 origin(limit.field, limit.value, identity, heard),
                 origin(limit.bound, limit.bound_value, identity, heard));
  }
  return Status::ok();
}

}  // namespace

bool in_slurm_step(const Environment& environment) {
  if (!tells(environment, "SLURM_STEP_NUM_TASKS")) return false;
  auto text = environment.get("SLURM_STEP_ID");
  if (!text) text = environment.get("SLURM_STEPID");
  if (!text) return false;
  long long step = -1;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, step);
  const bool is_step =
      parsed.ec == std::errc() && parsed.ptr == end && step >= 0 && step <= kMaxStepId;
  return is_step && !step_is_elsewhere(environment);
}

std::string slurm_step_name(const Environment& environment) {
  const auto job = environment.get("SLURM_JOB_ID");
  auto step = environment.get("SLURM_STEP_ID");
  if (!step) step = environment.get("SLURM_STEPID");
  return job && step ? format_text("{}.{}", *job, *step) : std::string();
}

RankMark read_rank_mark(const Environment& environment) {
  const std::string text = environment.get(launch_env::kRankOf).value_or("");
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {};
  return {text.substr(0, slash), environment.get("RANK") == text.substr(slash + 1)};
}

std::string_view size_without_rank(const Environment& environment) {
  for (const LaunchSource& source : kLaunchSources) {
    if (source.size.empty() || source.layer == LauncherLayer::kFlux) continue;
    if (tells(environment, source.rank)) continue;
    const auto size = environment.get_int(source.size, 0, 1LL << 31);
    if (!size.is_ok() || size.value().value_or(1) > 1) return source.size;
  }
  return {};
}

bool in_slurm_shell(const Environment& environment) {
  return (environment.has("SLURM_JOB_ID") || environment.has("SLURM_JOBID")) &&
         !in_slurm_step(environment);
}

std::string describe_identity(const Identity& identity) {
  std::string same = identity.source;
  std::string around;
  for (const IdentityClaim& claim : identity.details) {
    if (!claim.outer && claim.source != identity.source) same += ", " + claim.source;
    if (claim.outer) around += (around.empty() ? "; around it: " : ", ") + claim.source;
  }
  return format_text("rank {} of {} by {}{}", identity.rank,
                     identity.size > 0 ? std::to_string(identity.size) : "?", same, around);
}

std::string launcher_of(const Identity& identity) {
  for (const IdentityClaim& claim : identity.details) {
    if (claim.source != "hvdrun") return claim.source;
  }
  return identity.source;
}

bool is_started_by(const Identity& identity, std::string_view source) {
  return std::any_of(
      identity.details.begin(), identity.details.end(),
      [&](const IdentityClaim& claim) { return claim.source == source && !claim.outer; });
}

Result<std::optional<Identity>> derive_identity(const Environment& environment) {
  Heard heard;
  for (const LaunchSource& source : kLaunchSources) {
    if (!speaks(source, environment)) continue;
    HVD_TRY_ASSIGN(IdentityClaim claim, hear(source, environment, heard));
    heard.sources.push_back(&source);
    heard.claims.push_back(std::move(claim));
  }
  const auto first = std::find_if(heard.claims.begin(), heard.claims.end(),
                                  [](const IdentityClaim& claim) { return !claim.outer; });
  if (first == heard.claims.end()) return std::optional<Identity>();
  Identity identity;
  identity.source = first->source;
  identity.rank = first->rank;
  for (const IdentityClaim& claim : heard.claims) {
    if (claim.outer) continue;
    if (identity.size == 0 && claim.size > 0) identity.size = claim.size;
    complete(identity.local_rank, claim.local_rank);
    complete(identity.local_size, claim.local_size);
    complete(identity.node, claim.node);
    complete(identity.node_count, claim.node_count);
  }
  deduce_place(identity);
  HVD_TRY(check_whole(identity, heard));
  identity.details = std::move(heard.claims);
  return std::optional<Identity>(std::move(identity));
}

}  // namespace hvd
