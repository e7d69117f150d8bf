// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/rank_resources.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/read_setting.h"
#include "launcher/node/matching.h"
#include "launcher/plan/binding.h"
#include "launcher/plan/gpu_choice.h"
#include "launcher/plan/placement_checks.h"
#include "launcher/plan/task_masks.h"
#include "topology/identity.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"

#include "base/rounding.h"

namespace hvd {
namespace {

constexpr int kMaxCpus = 65536;

/// Everything that one machine's ranks are given their resources from.
struct Machine {
  const RunOptions& options;
  const Allocation& allocation;
  const VisibleGpus& visible;
  const NodeTopology& topology;
  std::vector<CpuSet> masks;       ///< By rank on this machine; empty: not known.
  std::vector<GpuBehind> entries;  ///< Of the visible list.
  std::vector<int> gpus;           ///< By rank: GPU of the topology; -1: none or not known.

  Environment const& environment() const { return allocation.environment; }
  bool is_task() const { return allocation.task() != nullptr; }
  std::size_t place_of(const RankPlacement& rank) const {
    // Virtual nodes share the machine.
    return static_cast<std::size_t>(is_task() ? rank.local_rank : rank.rank);
  }
  bool owns_mask(const RankPlacement& rank) const {
    if (!is_task()) return false;
    return std::count(masks.begin(), masks.end(), masks[place_of(rank)]) == 1;
  }
  /// A launcher other than Slurm has bound the ranks: it does not tell which of them share what.
  bool is_bound_by_launcher() const {
    const TaskLaunch* const task = allocation.task();
    return task != nullptr && allocation.mask.size() < task->launcher_mask.size();
  }
  bool shares_one_mask() const {
    return std::all_of(masks.begin(), masks.end(),
                       [&](const CpuSet& mask) { return mask == masks.front(); });
  }
};

Status read_masks(Machine& machine, int local_size) {
  const Allocation& allocation = machine.allocation;
  machine.masks.assign(static_cast<std::size_t>(local_size), allocation.mask);
  if (const TaskLaunch* task = allocation.task()) {
    const int local_rank = task->identity.local_rank;
    machine.masks =
        launcher_of(task->identity) == kSlurmStep
            ? task_masks(allocation.environment, allocation.mask, local_rank, local_size)
            : masks_by_launcher(task->launcher_mask, allocation.mask, local_rank, local_size);
  }
  const SmtUse smt = machine.options.bind.smt;
  const BindPolicy policy = machine.options.bind.policy;
  const bool must_bind = policy != BindPolicy::kDefault && policy != BindPolicy::kNone;
  for (CpuSet& mask : machine.masks) {
    if (mask.empty() && !(must_bind && allocation.mask.empty())) continue;
    HVD_TRY_ASSIGN(mask, cpus_to_use(machine.topology, mask, smt));
  }
  return Status::ok();
}

/// The NICs that a job's traffic may use: RDMA devices, else hardware interfaces.
std::vector<int> nics_to_use(const NodeTopology& topology) {
  std::vector<int> rdma;
  std::vector<int> others;
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    const NodeNic& nic = topology.nics[i];
    if (!nic.is_up) continue;
    if (!nic.device.empty()) rdma.push_back(static_cast<int>(i));
    if (!nic.bus_id.empty()) others.push_back(static_cast<int>(i));
  }
  return rdma.empty() ? others : rdma;
}

/// The matching of all ranks of the machine; of this one alone where it cannot know the others'.
Matching match_ranks(const Machine& machine, int local_size) {
  MatchRequest request;
  request.local_size = local_size;
  for (const GpuBehind& entry : machine.entries) request.gpus.push_back(entry.gpu);
  request.nics = nics_to_use(machine.topology);
  if (machine.shares_one_mask()) {
    request.allowed = machine.masks.front();
  } else {
    request.rank_masks = machine.masks;
  }
  return match_node(machine.topology, request);
}

/// Of a rank whose GPU is chosen already.
int match_nic(const Machine& machine, int gpu) {
  MatchRequest request;
  request.gpus = {gpu};
  request.nics = nics_to_use(machine.topology);
  request.rank_masks = {machine.allocation.mask};
  return match_node(machine.topology, request).ranks.front().nic;
}

void use_gpu(const Machine& machine, int entry, RankPlacement& rank) {
  const auto index = static_cast<std::size_t>(entry);
  rank.gpu = entry;
  rank.gpu_entry = machine.visible.entries[index].text;
  rank.gpu_id = machine.entries[index].id;
  rank.gpu_on_node = machine.entries[index].gpu;
}

void use_nic(const Machine& machine, int nic, RankPlacement& rank) {
  if (nic < 0) return;
  const NodeNic& chosen = machine.topology.nics[static_cast<std::size_t>(nic)];
  rank.nic = chosen.name.empty() ? chosen.device : chosen.name;
}

/// Whether the ranks may share GPUs; asked only where they would have to.
Result<bool> may_share_gpus(const Machine& machine, int local_size) {
  const std::size_t count = machine.visible.entries.size();
  if (count == 0 || static_cast<std::size_t>(local_size) <= count) return false;
  return read_switch(environment_of_ranks(machine.options, machine.environment()),
                     launch_env::kShareGpu);
}

Status give_gpus(Machine& machine, int local_size, Placement& placement) {
  HVD_TRY_ASSIGN(const bool shares_gpu, may_share_gpus(machine, local_size));
  const VisibleGpus& visible = machine.visible;
  placement.gpus_per_node = static_cast<int>(visible.entries.size());
  placement.gpu_variable = visible.variable;
  machine.gpus.assign(static_cast<std::size_t>(local_size), -1);
  if (visible.entries.empty())
    placement.notes.emplace_back("GPUs: none visible, ranks run on CPUs");
  const bool knows_masks = std::none_of(machine.masks.begin(), machine.masks.end(),
                                        [](const CpuSet& mask) { return mask.empty(); });
  const bool matches = knows_masks && !visible.is_private;
  const Matching matching = matches ? match_ranks(machine, local_size) : Matching();
  for (std::size_t i = 0; matches && i < machine.gpus.size(); ++i) {
    machine.gpus[i] = matching.ranks[i].gpu;
  }
  for (RankPlacement& rank : placement.ranks) {
    const std::size_t place = machine.place_of(rank);
    HVD_TRY_ASSIGN(const auto entry,
                   choose_gpu(visible, shares_gpu, static_cast<int>(place), local_size));
    if (matches) {
      if (entry) use_gpu(machine, matching.ranks[place].entry, rank);
      use_nic(machine, matching.ranks[place].nic, rank);
      continue;
    }
    if (entry) use_gpu(machine, *entry, rank);
    machine.gpus[place] = rank.gpu_on_node;
    use_nic(machine, match_nic(machine, rank.gpu_on_node), rank);
  }
  return Status::ok();
}

BindPolicy effective_policy(const Machine& machine) {
  const BindPolicy asked = machine.options.bind.policy;
  if (asked != BindPolicy::kDefault) return asked;
  if (machine.allocation.mask.empty() || machine.is_bound_by_launcher()) return BindPolicy::kNone;
  if (machine.is_task()) return BindPolicy::kCores;
  const bool near_gpus =
      !machine.gpus.empty() &&
      std::all_of(machine.gpus.begin(), machine.gpus.end(), [](int gpu) { return gpu >= 0; });
  return near_gpus ? BindPolicy::kCores : BindPolicy::kNone;
}

/// No binding gives a rank CPUs that it may not use; without one the number would be a promise that
/// its threads break.
Status check_asked(const Machine& machine) {
  const int asked = machine.options.cpus_per_rank.value_or(0);
  for (std::size_t i = 0; i < machine.masks.size(); ++i) {
    const int cpus = static_cast<int>(machine.masks[i].size());
    if (cpus == 0 || asked <= cpus) continue;
    return error(Code::kInvalidArgument,
                 "--cpus-per-rank {}: local rank {} may use {} CPU{} here: ask for at most {}, or "
                 "start it where there are more",
                 asked, i, cpus, cpus == 1 ? "" : "s", cpus);
  }
  return Status::ok();
}

Result<std::vector<BoundRank>> bind_machine(const Machine& machine, BindPolicy policy, int asked) {
  BindRequest request;
  request.policy = policy;
  request.map = machine.options.bind.map;
  request.masks = machine.masks;
  request.gpus = machine.gpus;
  request.wanted_cpus = asked;
  HVD_TRY_ASSIGN(auto bound, bind_ranks(machine.topology, request));
  for (std::size_t i = 0; policy == BindPolicy::kCores && i < bound.size(); ++i) {
    const int cpus = static_cast<int>(bound[i].cpus.size());
    if (request.masks[i].empty() || cpus >= asked) continue;
    return error(Code::kInvalidArgument,
                 "local rank {}: its share of the cores has {} CPU{}, {} were asked for: ask for "
                 "fewer (-c), start fewer ranks, or do not bind (--bind none)",
                 i, cpus, cpus == 1 ? "" : "s", asked);
  }
  return bound;
}

/// Threads for the rank's computing: its cores, or fewer where it asked for fewer CPUs.
int threads_of(const Machine& machine, const BoundRank& bound, const CpuSet& mask, int asked) {
  if (asked == 0) return bound.cores;
  const CpuSet& cpus = bound.cpus.empty() ? mask : bound.cpus;
  const int cores = std::max(1, count_cores(machine.topology, cpus));
  const int per_core = std::max(1, static_cast<int>(cpus.size()) / cores);
  const int asked_cores = divide_up(asked, per_core);
  return bound.cpus.empty() ? asked_cores : std::min(bound.cores, asked_cores);
}

/// True where Slurm was told where memory goes: hvdrun does not know better.
bool slurm_binds_memory(const Environment& environment) {
  const std::string type = environment.get("SLURM_MEM_BIND_TYPE").value_or("");
  return !type.empty() && !type.starts_with("none");
}

void give_memory(const Machine& machine, const std::vector<int>& numas, RankPlacement& rank) {
  switch (machine.options.bind.memory) {
    case MemoryBind::kNone:
      return;
    case MemoryBind::kLocal:
      rank.memory_numas = numas;
      return;
    case MemoryBind::kDefault:
      break;
  }
  const bool has_place = !rank.cpus.empty() || machine.owns_mask(rank);
  if (!has_place || slurm_binds_memory(machine.environment())) return;
  std::set<int> all;
  for (const NodeCore& core : machine.topology.cores) all.insert(core.numa);
  if (numas.size() < all.size()) rank.memory_numas = numas;
}

Status give_cpus(const Machine& machine, Placement& placement) {
  std::optional<int> asked = machine.options.cpus_per_rank;
  if (machine.is_task()) {
    HVD_TRY_ASSIGN(asked, asked_cpus(machine.options, machine.environment()));
  }
  HVD_TRY(check_asked(machine));
  const BindPolicy policy = effective_policy(machine);
  auto bound = bind_machine(machine, policy, asked.value_or(1));
  if (!bound.is_ok()) {
    if (machine.options.bind.policy != BindPolicy::kDefault) return bound.status();
    placement.notes.push_back("CPUs: not bound, " + bound.status().message());
    bound = bind_machine(machine, BindPolicy::kNone, 0);
  }
  for (RankPlacement& rank : placement.ranks) {
    const std::size_t place = machine.place_of(rank);
    const BoundRank& mine = bound.value()[place];
    const CpuSet& mask = machine.masks[place];
    rank.threads = threads_of(machine, mine, mask, asked.value_or(0));
    if (mine.cpus != machine.allocation.mask) rank.cpus = mine.cpus;
    const bool has_been_bound = machine.owns_mask(rank) || machine.is_bound_by_launcher();
    rank.is_bound = !mine.cpus.empty() || has_been_bound;
    rank.usable_cpus = mine.cpus.empty() ? mask : mine.cpus;
    give_memory(machine, mine.numas, rank);
    if (policy == BindPolicy::kCores && rank.cpus.empty() && machine.owns_mask(rank)) {
      placement.notes.emplace_back("CPUs: the mask that it was started with is this rank's own");
    } else if (mine.cpus.empty() && machine.is_bound_by_launcher()) {
      placement.notes.push_back(
          format_text("CPUs {}: as {} has bound this rank{}", format_cpu_set(mask),
                      launcher_of(machine.allocation.task()->identity),
                      machine.owns_mask(rank) ? "" : " and others; --bind cores divides them"));
    }
  }
  return Status::ok();
}

}  // namespace

Environment environment_of_ranks(const RunOptions& options, const Environment& environment) {
  Environment changed = environment;
  for (const VariableOption& variable : options.variables) {
    if (variable.value) changed.set(variable.name, *variable.value);
  }
  return changed;
}

Result<std::optional<int>> asked_cpus(const RunOptions& options, const Environment& environment) {
  if (options.cpus_per_rank) return options.cpus_per_rank;
  HVD_TRY_ASSIGN(const auto given, environment.get_int("SLURM_CPUS_PER_TASK", 1, kMaxCpus));
  return given ? std::optional(static_cast<int>(*given)) : std::nullopt;
}

Status give_resources(const RunOptions& options, const Allocation& allocation,
                      const VisibleGpus& visible, int local_size, Placement& placement) {
  placement.topology = with_cores_of(allocation.node, allocation.mask);
  Machine machine{options, allocation, visible, placement.topology, {}, {}, {}};
  HVD_TRY_ASSIGN(machine.entries, gpus_behind(visible, placement.topology, allocation));
  HVD_TRY(read_masks(machine, local_size));
  HVD_TRY(give_gpus(machine, local_size, placement));
  HVD_TRY(give_cpus(machine, placement));
  append_warnings(allocation, visible, local_size, placement);
  return Status::ok();
}

}  // namespace hvd
