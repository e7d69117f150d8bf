// SPDX-License-Identifier: Apache-2.0
#include "topology/identity.h"

#include <array>
#include <charconv>
#include <utility>

#include "topology/hostlist.h"
#include "topology/launch_env.h"
#include "topology/task_map.h"

namespace hvd {
namespace {

constexpr long long kMaxRanks = 1LL << 24;
/// Above are interactive, batch and extern steps, which are no launched tasks.
constexpr long long kMaxStepId = 0xfffffff0LL;

enum class Place {
  kStep,    ///< Started by the resource manager; may surround another launcher.
  kNested,  ///< Has its own daemons, which a resource manager's step may have started.
};

/// The variables of one launcher; an empty name where it has none.
struct Source {
  std::string_view name;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view node;
  std::string_view node_count;
  /// Only there when this launcher started the process; empty: `rank` and `size` tell.
  std::string_view mark;
  Place place;
};

namespace env = launch_env;
constexpr std::string_view kSlurm = "Slurm step";
constexpr std::string_view kSlurmLayout = "SLURM_STEP_TASKS_PER_NODE";

/// In order of trust. Where launchers share names (PMI, RANK), the more telling row stands first.
constexpr std::array<Source, 10> kSources{{
    {"hvdrun", env::kRank, env::kSize, env::kLocalRank, env::kLocalSize, env::kNode, "", "",
     Place::kNested},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "",
     "TORCHELASTIC_RUN_ID", Place::kNested},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", "", "", Place::kNested},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", "",
     "MPI_LOCALRANKID", Place::kNested},
    {kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_NODEID",
     "SLURM_STEP_NUM_NODES", "", Place::kStep},
    {"PMIx", "PMIX_RANK", "", "", "", "", "", "", Place::kStep},
    {"PMI", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "", "", "", Place::kStep},
    {"PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE", "PALS_NODEID", "",
     "", Place::kStep},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "", "", "FLUX_JOB_NNODES", "",
     Place::kStep},
    {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "", "", "",
     Place::kStep},
}};

Status read(const Environment& environment, std::string_view name, long long lowest, int& value) {
  if (name.empty()) return Status::ok();
  HVD_TRY_ASSIGN(const auto number, environment.get_int(name, lowest, kMaxRanks));
  if (number) value = static_cast<int>(*number);
  return Status::ok();
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
    return error(Code::kInvalidArgument, "{}='{}' adds up to {} tasks, SLURM_STEP_NUM_TASKS is {}",
                 kSlurmLayout, *map, sum, claim.size);
  }
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

bool speaks(const Source& source, const Environment& environment) {
  if (!environment.has(source.rank)) return false;
  if (source.name == kSlurm) return in_slurm_step(environment);
  if (!source.size.empty() && !environment.has(source.size)) return false;
  return source.mark.empty() || environment.has(source.mark);
}

/// "PMI_RANK (MPICH)"; for what Slurm tells in its layout, that variable.
std::string variable(const Source& source, std::string_view name) {
  return format_text("{} ({})", name.empty() ? kSlurmLayout : name, source.name);
}

Status check_range(const Source& source, const IdentityClaim& claim) {
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

Result<IdentityClaim> read_claim(const Source& source, const Environment& environment) {
  IdentityClaim claim;
  claim.source = source.name;
  HVD_TRY(read(environment, source.rank, 0, claim.rank));
  HVD_TRY(read(environment, source.size, 1, claim.size));
  HVD_TRY(read(environment, source.local_rank, 0, claim.local_rank));
  HVD_TRY(read(environment, source.local_size, 1, claim.local_size));
  HVD_TRY(read(environment, source.node, 0, claim.node));
  HVD_TRY(read(environment, source.node_count, 1, claim.node_count));
  if (source.name == kSlurm) HVD_TRY(read_slurm_layout(environment, claim));
  HVD_TRY(check_range(source, claim));
  return claim;
}

struct Field {
  int IdentityClaim::*value;
  std::string_view Source::*name;
};
/// Node numbers are not compared: launchers count nodes in orders of their own.
constexpr std::array<Field, 4> kCompared{{
    {&IdentityClaim::rank, &Source::rank},
    {&IdentityClaim::size, &Source::size},
    {&IdentityClaim::local_rank, &Source::local_rank},
    {&IdentityClaim::local_size, &Source::local_size},
}};

Status compare(const Source& a, const IdentityClaim& first, const Source& b,
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

/// Compares a new claim with those before it; sets it aside where it may be a step around them.
Status cross_check(const Source& source, IdentityClaim& claim,
                   const std::vector<const Source*>& sources,
                   const std::vector<IdentityClaim>& claims) {
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].outer) continue;
    Status same = compare(*sources[i], claims[i], source, claim);
    if (same.is_ok()) continue;
    // hvdrun clears what it replaces: a step that contradicts it is a real conflict.
    const bool nested = sources[0]->place == Place::kNested && sources[0]->name != "hvdrun";
    if (!nested || source.place != Place::kStep) return same;
    claim.outer = true;
    return Status::ok();
  }
  return Status::ok();
}

void complete(int& field, int claimed) {
  if (field < 0) field = claimed;
}

}  // namespace

bool in_slurm_step(const Environment& environment) {
  if (!environment.has("SLURM_STEP_NUM_TASKS")) return false;
  auto text = environment.get("SLURM_STEP_ID");
  if (!text) text = environment.get("SLURM_STEPID");
  if (!text) return false;
  long long step = -1;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, step);
  return parsed.ec == std::errc() && parsed.ptr == end && step >= 0 && step <= kMaxStepId;
}

bool in_slurm_shell(const Environment& environment) {
  return (environment.has("SLURM_JOB_ID") || environment.has("SLURM_JOBID")) &&
         !in_slurm_step(environment);
}

Result<std::optional<Identity>> derive_identity(const Environment& environment) {
  std::vector<const Source*> sources;
  Identity identity;
  for (const Source& source : kSources) {
    if (!speaks(source, environment)) continue;
    HVD_TRY_ASSIGN(IdentityClaim claim, read_claim(source, environment));
    HVD_TRY(cross_check(source, claim, sources, identity.details));
    sources.push_back(&source);
    identity.details.push_back(std::move(claim));
  }
  if (sources.empty()) return std::optional<Identity>();
  identity.source = sources.front()->name;
  identity.rank = identity.details.front().rank;
  for (const IdentityClaim& claim : identity.details) {
    if (claim.outer) continue;
    if (identity.size == 0 && claim.size > 0) identity.size = claim.size;
    complete(identity.local_rank, claim.local_rank);
    complete(identity.local_size, claim.local_size);
    complete(identity.node, claim.node);
    complete(identity.node_count, claim.node_count);
  }
  return std::optional<Identity>(std::move(identity));
}

}  // namespace hvd
