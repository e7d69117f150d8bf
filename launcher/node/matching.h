// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/node/node_topology.h"
#include "topology/cpu_set.h"

namespace hvd {

/// Which ranks, GPUs, CPUs and NICs of one node are to be matched.
struct MatchRequest {
  int local_size = 1;     ///< Ranks on this node.
  std::vector<int> gpus;  ///< By entry of the visible list: GPU of the topology; -1: not known.
  CpuSet allowed;         ///< The job's CPUs; empty: all of the node.
  /// By local rank, where each has a mask of its own (Slurm's): then only GPUs and NICs are
  /// chosen. Empty: the allowed cores are divided.
  std::vector<CpuSet> rank_masks;
  std::vector<int> nics;  ///< NICs of the topology that the job's traffic may use.
};

/// What one local rank uses.
struct MatchedRank {
  int entry = -1;          ///< Entry of the visible list; -1: no GPU.
  int gpu = -1;            ///< GPU of the topology; -1: none, or its place is not known.
  std::vector<int> cores;  ///< Cores of the topology, ascending; empty: fewer cores than ranks.
  CpuSet cpus;             ///< The allowed CPUs of these cores.
  std::vector<int> numas;  ///< NUMA nodes of these cores, ascending.
  int nic = -1;            ///< NIC of the topology; -1: none.
  int far_cores = 0;       ///< Of its cores, how many are not nearest to its GPU.
  bool is_far = false;     ///< Every core is in another package than its GPU.
};

struct Matching {
  std::vector<MatchedRank> ranks;  ///< By local rank.
  std::vector<int> idle_entries;   ///< Entries of the visible list that no rank uses.
  std::vector<std::string> notes;  ///< GPU shared, left idle or far, and the like.
};

/// Cost of a core for a rank: nearest to its GPU; another NUMA node of the GPU's package; another
/// package. The kernel's NUMA distances (10, 12, 32 on a usual two-socket node) give the ratio.
inline constexpr int kNearCost = 0;
inline constexpr int kPackageCost = 1;
inline constexpr int kFarCost = 10;

/// Gives each rank a GPU, cores and a NIC so that the sum of the costs over all cores of all ranks
/// is least. Where the masks are free, rank order is the order of the visible list and the cores
/// follow; shares are even, whole cores, neighbours where that costs nothing. Equal costs keep rank
/// order beside list order. With more ranks than GPUs, rank r uses entry r modulo their number.
/// Then each rank takes the nearest NIC, the least used of equally near ones. Pure.
Matching match_node(const NodeTopology& topology, const MatchRequest& request);

}  // namespace hvd
