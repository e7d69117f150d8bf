// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/binding.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

namespace hvd {
namespace {

CpuSet intersect(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

CpuSet without(const CpuSet& a, const CpuSet& b) {
  CpuSet rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

/// Socket or NUMA node of a core.
int domain_of(const NodeCore& core, BindPolicy policy) {
  return policy == BindPolicy::kSocket ? core.package : core.numa;
}

/// The domains that the mask touches, ascending.
std::vector<int> domains_in(const NodeTopology& topology, const CpuSet& mask, BindPolicy policy) {
  std::set<int> domains;
  for (const NodeCore& core : topology.cores) {
    if (!intersect(core.cpus, mask).empty()) domains.insert(domain_of(core, policy));
  }
  return {domains.begin(), domains.end()};
}

CpuSet cpus_of_domain(const NodeTopology& topology, const CpuSet& mask, BindPolicy policy,
                      int domain) {
  CpuSet cpus;
  for (const NodeCore& core : topology.cores) {
    if (domain_of(core, policy) != domain) continue;
    const CpuSet usable = intersect(core.cpus, mask);
    cpus.insert(cpus.end(), usable.begin(), usable.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

/// The domain nearest to the GPU, where the mask has a part of it; -1: not known.
int domain_of_gpu(const NodeTopology& topology, int gpu, BindPolicy policy) {
  if (gpu < 0) return -1;
  const NodeGpu& device = topology.gpus[static_cast<std::size_t>(gpu)];
  if (policy == BindPolicy::kNuma) return device.numa;
  for (const NodeCore& core : topology.cores) {
    if (core.numa == device.numa || !intersect(core.cpus, device.near_cpus).empty()) {
      return core.package;
    }
  }
  return -1;
}

/// Ranks by mask: those that share one divide it.
std::map<CpuSet, std::vector<std::size_t>> ranks_by_mask(const std::vector<CpuSet>& masks) {
  std::map<CpuSet, std::vector<std::size_t>> groups;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) groups[masks[rank]].push_back(rank);
  return groups;
}

/// GPUs of the node that none of the ranks uses although most cores near them are in the mask:
/// their share of the cores is left alone, or a rank would get cores in another socket than its
/// GPU.
std::vector<int> unused_gpus(const NodeTopology& topology, const CpuSet& mask,
                             const std::vector<int>& used) {
  std::vector<int> unused;
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    const int gpu = static_cast<int>(i);
    if (std::find(used.begin(), used.end(), gpu) != used.end()) continue;
    const CpuSet& near = topology.gpus[i].near_cpus;
    const int cores = count_cores(topology, near);
    // Three quarters: sites that keep a core of each cache for the system count as whole nodes.
    if (cores > 0 && 4 * count_cores(topology, intersect(near, mask)) >= 3 * cores) {
      unused.push_back(gpu);
    }
  }
  return unused;
}

/// Shares of the mask for the ranks, some for GPUs that nobody uses; a share may be empty.
std::vector<CpuSet> share_cores(const NodeTopology& topology, const CpuSet& mask, std::size_t ranks,
                                std::vector<int> gpus, const std::vector<int>& unused) {
  MatchRequest match;
  match.local_size = static_cast<int>(ranks + unused.size());
  match.allowed = mask;
  match.gpus = std::move(gpus);
  match.gpus.insert(match.gpus.end(), unused.begin(), unused.end());
  const Matching matching = match_node(topology, match);
  std::vector<CpuSet> shares;
  for (std::size_t i = 0; i < ranks; ++i) shares.push_back(matching.ranks[i].cpus);
  return shares;
}

Status divide_cores(const NodeTopology& topology, const BindRequest& request, const CpuSet& mask,
                    const std::vector<std::size_t>& ranks, std::vector<BoundRank>& bound) {
  std::vector<int> gpus;
  gpus.reserve(ranks.size());
  for (const std::size_t rank : ranks) gpus.push_back(request.gpus[rank]);
  const bool with_gpus = std::all_of(gpus.begin(), gpus.end(), [](int gpu) { return gpu >= 0; });
  if (!with_gpus) gpus.clear();
  std::vector<int> unused;
  if (with_gpus && ranks.size() > 1) unused = unused_gpus(topology, mask, gpus);
  std::vector<CpuSet> shares = share_cores(topology, mask, ranks.size(), gpus, unused);
  const bool enough = std::all_of(shares.begin(), shares.end(), [&](const CpuSet& share) {
    return static_cast<int>(share.size()) >= request.wanted_cpus;
  });
  if (!enough && !unused.empty()) {
    shares = share_cores(topology, mask, ranks.size(), gpus, {});
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (shares[i].empty()) {
      const int cores = count_cores(topology, mask);
      return error(Code::kInvalidArgument,
                   "{} ranks share {} core{} (CPUs {}): start at most {}, give them more cores, or "
                   "do not bind (--bind none)",
                   ranks.size(), cores, cores == 1 ? "" : "s", format_cpu_set(mask), cores);
    }
    bound[ranks[i]].cpus = std::move(shares[i]);
  }
  return Status::ok();
}

/// Each rank the domain of its GPU, else the ranks in blocks over the domains of their mask.
void choose_domains(const NodeTopology& topology, const BindRequest& request, const CpuSet& mask,
                    const std::vector<std::size_t>& ranks, std::vector<BoundRank>& bound) {
  const std::vector<int> domains = domains_in(topology, mask, request.policy);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int near = domain_of_gpu(topology, request.gpus[ranks[i]], request.policy);
    const bool usable = std::find(domains.begin(), domains.end(), near) != domains.end();
    const int domain = usable ? near : domains[i * domains.size() / ranks.size()];
    bound[ranks[i]].cpus = cpus_of_domain(topology, mask, request.policy, domain);
  }
}

Status take_map(const BindRequest& request, std::vector<BoundRank>& bound) {
  if (request.map.size() < bound.size()) {
    return error(Code::kInvalidArgument,
                 "--bind map: {} CPU list{} for {} ranks on this machine; type one per local rank",
                 request.map.size(), request.map.size() == 1 ? "" : "s", bound.size());
  }
  for (std::size_t rank = 0; rank < bound.size(); ++rank) {
    const CpuSet outside = without(request.map[rank], request.masks[rank]);
    // An empty mask is that of another task, which answers for itself.
    if (!outside.empty() && !request.masks[rank].empty()) {
      return error(Code::kInvalidArgument,
                   "--bind map: local rank {}: CPUs {} are outside of the mask {} that it was "
                   "given; name CPUs of the mask, or widen it (srun --cpu-bind=none, "
                   "taskset)",
                   rank, format_cpu_set(outside), format_cpu_set(request.masks[rank]));
    }
    bound[rank].cpus = request.map[rank];
  }
  return Status::ok();
}

/// Cores a rank may count on: its own, divided by the ranks that are bound to the same.
void count_threads(const NodeTopology& topology, const BindRequest& request,
                   std::vector<BoundRank>& bound) {
  std::map<CpuSet, int> sharers;
  for (std::size_t rank = 0; rank < bound.size(); ++rank) {
    ++sharers[bound[rank].cpus.empty() ? request.masks[rank] : bound[rank].cpus];
  }
  for (std::size_t rank = 0; rank < bound.size(); ++rank) {
    const CpuSet& cpus = bound[rank].cpus.empty() ? request.masks[rank] : bound[rank].cpus;
    bound[rank].numas = numas_of(topology, cpus);
    bound[rank].cores = std::max(1, count_cores(topology, cpus) / sharers[cpus]);
  }
}

}  // namespace

NodeTopology with_cores_of(NodeTopology topology, const CpuSet& mask) {
  CpuSet known;
  for (const NodeCore& core : topology.cores) {
    known.insert(known.end(), core.cpus.begin(), core.cpus.end());
  }
  std::sort(known.begin(), known.end());
  for (const int cpu : without(mask, known)) {
    NodeCore core;
    core.cpus = {cpu};
    topology.cores.push_back(std::move(core));
  }
  return topology;
}

Result<CpuSet> cpus_to_use(const NodeTopology& topology, const CpuSet& mask, SmtUse smt) {
  if (mask.empty()) {
    return error(Code::kInvalidArgument,
                 "the CPU mask of this process is empty or cannot be read, so there is nothing to "
                 "bind to; do not bind (--bind none)");
  }
  if (smt == SmtUse::kAsGiven) return mask;
  CpuSet cpus;
  for (const NodeCore& core : topology.cores) {
    const CpuSet usable = intersect(core.cpus, mask);
    if (usable.empty()) continue;
    if (smt == SmtUse::kOne) {
      cpus.push_back(usable.front());
      continue;
    }
    if (usable.size() < core.cpus.size()) {
      return error(Code::kInvalidArgument,
                   "--smt: of the hardware threads {} of a core the mask {} has only {}; ask Slurm "
                   "for all (--hint=multithread), or leave --smt out",
                   format_cpu_set(core.cpus), format_cpu_set(mask), format_cpu_set(usable));
    }
    cpus.insert(cpus.end(), usable.begin(), usable.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

Result<std::vector<BoundRank>> bind_ranks(const NodeTopology& topology,
                                          const BindRequest& request) {
  std::vector<BoundRank> bound(request.masks.size());
  if (request.policy == BindPolicy::kMap) {
    HVD_TRY(take_map(request, bound));
  } else if (request.policy != BindPolicy::kNone) {
    for (const auto& [mask, ranks] : ranks_by_mask(request.masks)) {
      if (mask.empty()) continue;
      if (request.policy == BindPolicy::kCores) {
        HVD_TRY(divide_cores(topology, request, mask, ranks, bound));
      } else {
        choose_domains(topology, request, mask, ranks, bound);
      }
    }
  }
  count_threads(topology, request, bound);
  return bound;
}

int count_cores(const NodeTopology& topology, const CpuSet& cpus) {
  return static_cast<int>(
      std::count_if(topology.cores.begin(), topology.cores.end(),
                    [&](const NodeCore& core) { return !intersect(core.cpus, cpus).empty(); }));
}

std::vector<int> numas_of(const NodeTopology& topology, const CpuSet& cpus) {
  std::set<int> numas;
  for (const NodeCore& core : topology.cores) {
    if (!intersect(core.cpus, cpus).empty()) numas.insert(core.numa);
  }
  return {numas.begin(), numas.end()};
}

}  // namespace hvd
