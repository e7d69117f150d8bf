// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/matching.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "base/format.h"
#include "launcher/node/assignment.h"
#include "launcher/node/core_exchange.h"

namespace hvd {
namespace {

/// Above every sum of tie-breakers, so that they decide between equal costs only.
constexpr long long kCostUnit = 1LL << 32;

using Costs = std::vector<std::vector<long long>>;

/// The topology and the request, and where things are in them.
class NodeMatcher {
 public:
  NodeMatcher(const NodeTopology& topology, const MatchRequest& request);

  Matching match();

 private:
  int core_cost(int core, int gpu) const;
  long long share_cost(const std::vector<int>& share, int gpu) const;
  std::vector<int> usable_cores(const CpuSet& mask) const;
  std::vector<int> candidates() const;
  int entry(int candidate) const { return candidate % static_cast<int>(request_.gpus.size()); }

  Costs gpu_costs(const CoreShares& shares, const std::vector<int>& gpus) const;
  void choose_gpus_for_masks();
  void divide_and_choose();
  CoreShares even_shares() const;
  void improve_shares();
  void choose_nics();
  long long nic_cost(const MatchedRank& rank, int nic) const;
  void describe(MatchedRank& rank) const;
  void note_gpus();
  void note_distances();

  const NodeTopology& topology_;
  const MatchRequest& request_;
  std::vector<CpuSet> core_cpus_;     ///< By core, the CPUs that the job may use.
  std::vector<int> package_of_numa_;  ///< By NUMA node; -1: has no core.
  Matching matching_;
};

bool contains(const CpuSet& cpus, int cpu) {
  return std::binary_search(cpus.begin(), cpus.end(), cpu);
}

NodeMatcher::NodeMatcher(const NodeTopology& topology, const MatchRequest& request)
    : topology_(topology), request_(request) {
  for (const NodeCore& core : topology.cores) {
    CpuSet cpus;
    for (const int cpu : core.cpus) {
      if (request.allowed.empty() || contains(request.allowed, cpu)) cpus.push_back(cpu);
    }
    core_cpus_.push_back(std::move(cpus));
    const auto numa = static_cast<std::size_t>(std::max(0, core.numa));
    if (package_of_numa_.size() <= numa) package_of_numa_.resize(numa + 1, -1);
    package_of_numa_[numa] = core.package;
  }
  matching_.ranks.resize(static_cast<std::size_t>(std::max(0, request.local_size)));
}

int NodeMatcher::core_cost(int core, int gpu) const {
  if (gpu < 0) return kNearCost;
  const NodeGpu& device = topology_.gpus[static_cast<std::size_t>(gpu)];
  const NodeCore& where = topology_.cores[static_cast<std::size_t>(core)];
  if (device.near_cpus.empty() && device.numa < 0) return kNearCost;
  const bool is_near = device.near_cpus.empty() ? where.numa == device.numa
                                                : contains(device.near_cpus, where.cpus.front());
  if (is_near) return kNearCost;
  int package = -1;
  if (device.numa >= 0 && static_cast<std::size_t>(device.numa) < package_of_numa_.size()) {
    package = package_of_numa_[static_cast<std::size_t>(device.numa)];
  }
  for (const NodeCore& other : topology_.cores) {
    if (package >= 0) break;
    if (contains(device.near_cpus, other.cpus.front())) package = other.package;
  }
  return where.package == package ? kPackageCost : kFarCost;
}

long long NodeMatcher::share_cost(const std::vector<int>& share, int gpu) const {
  return std::accumulate(share.begin(), share.end(), 0LL,
                         [&](long long sum, int core) { return sum + core_cost(core, gpu); });
}

std::vector<int> NodeMatcher::usable_cores(const CpuSet& mask) const {
  std::vector<int> cores;
  for (std::size_t core = 0; core < core_cpus_.size(); ++core) {
    const CpuSet& cpus = core_cpus_[core];
    if (std::any_of(cpus.begin(), cpus.end(),
                    [&](int cpu) { return mask.empty() || contains(mask, cpu); })) {
      cores.push_back(static_cast<int>(core));
    }
  }
  return cores;
}

/// The GPU of the topology by candidate: each entry of the list once, and over again where there
/// are more ranks than entries, as often as entry r modulo their number comes up.
std::vector<int> NodeMatcher::candidates() const {
  std::vector<int> gpus = request_.gpus;
  const std::size_t entries = gpus.size();
  for (std::size_t i = entries; entries > 0 && i < matching_.ranks.size(); ++i) {
    gpus.push_back(request_.gpus[i % entries]);
  }
  return gpus;
}

Costs NodeMatcher::gpu_costs(const CoreShares& shares, const std::vector<int>& gpus) const {
  Costs costs;
  for (std::size_t share = 0; share < shares.size(); ++share) {
    std::vector<long long> row;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      // The square prefers rank order beside list order among equals, and the first of the list.
      const auto skew = static_cast<long long>(share) - static_cast<long long>(i);
      row.push_back(share_cost(shares[share], gpus[i]) * kCostUnit + skew * skew);
    }
    costs.push_back(std::move(row));
  }
  return costs;
}

void NodeMatcher::choose_gpus_for_masks() {
  CoreShares shares;
  for (const CpuSet& mask : request_.rank_masks) shares.push_back(usable_cores(mask));
  const std::vector<int> gpus = candidates();
  std::vector<int> chosen;
  if (!gpus.empty()) chosen = assign_least_cost(gpu_costs(shares, gpus));
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    MatchedRank& matched = matching_.ranks[rank];
    matched.cores = std::move(shares[rank]);
    matched.cpus = request_.rank_masks[rank];
    if (chosen.empty()) continue;
    matched.entry = entry(chosen[rank]);
    matched.gpu = gpus[static_cast<std::size_t>(chosen[rank])];
  }
}

/// Whole cores in their order, divided evenly; the first shares are one larger.
CoreShares NodeMatcher::even_shares() const {
  const std::vector<int> cores = usable_cores({});
  const std::size_t parts = matching_.ranks.size();
  CoreShares shares(parts);
  if (cores.size() < parts) return shares;
  auto next = cores.begin();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t size = cores.size() / parts + (part < cores.size() % parts ? 1 : 0);
    const auto end = next + static_cast<std::ptrdiff_t>(size);
    shares[part].assign(next, end);
    next = end;
  }
  return shares;
}

void NodeMatcher::divide_and_choose() {
  const CoreShares shares = even_shares();
  if (!shares.empty() && shares.front().empty()) {
    matching_.notes.push_back(format_text("CPUs: {} cores cannot be divided over {} ranks",
                                          usable_cores({}).size(), shares.size()));
  }
  std::vector<int> gpus = candidates();
  const bool has_gpus = !gpus.empty();
  if (!has_gpus) gpus.assign(shares.size(), -1);
  const std::vector<int> chosen = assign_least_cost(gpu_costs(shares, gpus));
  // The ranks are alike: number them as the list has their GPUs.
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return chosen[a] < chosen[b]; });
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const int candidate = chosen[order[rank]];
    MatchedRank& matched = matching_.ranks[rank];
    matched.cores = shares[order[rank]];
    matched.gpu = gpus[static_cast<std::size_t>(candidate)];
    if (has_gpus) matched.entry = entry(candidate);
  }
  improve_shares();
}

/// Shares of neighbours may leave a better division aside, where a NUMA node is cut in two.
void NodeMatcher::improve_shares() {
  std::vector<std::vector<int>> costs;
  for (std::size_t core = 0; core < topology_.cores.size(); ++core) {
    std::vector<int> row;
    for (const MatchedRank& rank : matching_.ranks) {
      row.push_back(core_cost(static_cast<int>(core), rank.gpu));
    }
    costs.push_back(std::move(row));
  }
  CoreShares shares;
  for (MatchedRank& rank : matching_.ranks) shares.push_back(std::move(rank.cores));
  exchange_cores(costs, shares);
  for (std::size_t i = 0; i < shares.size(); ++i) matching_.ranks[i].cores = std::move(shares[i]);
}

long long NodeMatcher::nic_cost(const MatchedRank& rank, int nic) const {
  const auto column = static_cast<std::size_t>(nic);
  if (rank.gpu >= 0) {
    return static_cast<long long>(topology_.gpu_to_nic[static_cast<std::size_t>(rank.gpu)][column]);
  }
  const int numa = topology_.nics[column].numa;
  if (numa < 0 || rank.numas.empty()) return 0;
  return std::find(rank.numas.begin(), rank.numas.end(), numa) == rank.numas.end() ? 1 : 0;
}

void NodeMatcher::choose_nics() {
  if (request_.nics.empty() || matching_.ranks.empty()) return;
  const std::size_t ranks = matching_.ranks.size();
  Costs costs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<long long> row;
    for (std::size_t nic = 0; nic < request_.nics.size(); ++nic) {
      const long long cost = nic_cost(matching_.ranks[rank], request_.nics[nic]) * kCostUnit;
      const auto skew =
          static_cast<long long>(rank % request_.nics.size()) - static_cast<long long>(nic);
      // A NIC's second rank costs more than its first: equally near ones share evenly.
      for (std::size_t load = 0; load < ranks; ++load) {
        row.push_back(cost + static_cast<long long>(load << 20U) + skew * skew);
      }
    }
    costs.push_back(std::move(row));
  }
  const std::vector<int> chosen = assign_least_cost(costs);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    matching_.ranks[rank].nic = request_.nics[static_cast<std::size_t>(chosen[rank]) / ranks];
  }
}

void NodeMatcher::describe(MatchedRank& rank) const {
  const bool is_fixed = !rank.cpus.empty();  // Then it is the mask that the rank has.
  std::set<int> numas;
  int in_other_package = 0;
  for (const int core : rank.cores) {
    const CpuSet& cpus = core_cpus_[static_cast<std::size_t>(core)];
    if (!is_fixed) rank.cpus.insert(rank.cpus.end(), cpus.begin(), cpus.end());
    numas.insert(topology_.cores[static_cast<std::size_t>(core)].numa);
    const int cost = core_cost(core, rank.gpu);
    if (cost > kNearCost) ++rank.far_cores;
    if (cost >= kFarCost) ++in_other_package;
  }
  std::sort(rank.cpus.begin(), rank.cpus.end());
  rank.numas.assign(numas.begin(), numas.end());
  rank.is_far = !rank.cores.empty() && in_other_package == static_cast<int>(rank.cores.size());
}

void NodeMatcher::note_gpus() {
  std::vector<std::vector<int>> users(request_.gpus.size());
  for (std::size_t rank = 0; rank < matching_.ranks.size(); ++rank) {
    const int entry = matching_.ranks[rank].entry;
    if (entry >= 0) users[static_cast<std::size_t>(entry)].push_back(static_cast<int>(rank));
  }
  for (std::size_t entry = 0; entry < users.size(); ++entry) {
    if (users[entry].empty()) {
      matching_.idle_entries.push_back(static_cast<int>(entry));
      matching_.notes.push_back(format_text("GPU entry {} stays idle", entry));
    } else if (users[entry].size() > 1) {
      matching_.notes.push_back(
          format_text("local ranks {} share GPU entry {}", format_cpu_set(users[entry]), entry));
    }
  }
}

void NodeMatcher::note_distances() {
  for (std::size_t rank = 0; rank < matching_.ranks.size(); ++rank) {
    const MatchedRank& matched = matching_.ranks[rank];
    if (matched.far_cores == 0) continue;
    matching_.notes.push_back(
        format_text("local rank {}: {} of its {} cores are not nearest to its GPU {}{}", rank,
                    matched.far_cores, matched.cores.size(), matched.gpu,
                    matched.is_far ? " (another package)" : ""));
  }
}

Matching NodeMatcher::match() {
  if (request_.rank_masks.size() == matching_.ranks.size() && !request_.rank_masks.empty()) {
    choose_gpus_for_masks();
  } else {
    divide_and_choose();
  }
  for (MatchedRank& rank : matching_.ranks) describe(rank);
  choose_nics();
  note_gpus();
  note_distances();
  return std::move(matching_);
}

}  // namespace

Matching match_node(const NodeTopology& topology, const MatchRequest& request) {
  return NodeMatcher(topology, request).match();
}

}  // namespace hvd
