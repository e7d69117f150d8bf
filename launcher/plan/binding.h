// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/node/matching.h"
#include "launcher/node/node_topology.h"
#include "launcher/options/bind_options.h"
#include "topology/cpu_set.h"

namespace hvd {

/// What the ranks of one machine may be bound to. All by rank on this machine.
struct BindRequest {
  BindPolicy policy = BindPolicy::kCores;  ///< Any but kDefault.
  std::vector<CpuSet> map;                 ///< BindPolicy::kMap.
  std::vector<CpuSet> masks;  ///< CPUs that each rank may use; equal where shared; empty: unknown.
  int wanted_cpus = 1;        ///< For each rank, where the mask has them.
  std::vector<int> gpus;      ///< GPU of the topology; -1: none or not known.
};

/// What one rank is bound to.
struct BoundRank {
  CpuSet cpus;             ///< Empty: not bound.
  std::vector<int> numas;  ///< NUMA nodes of its CPUs, ascending.
  int cores = 1;           ///< Cores it may count on alone: threads for its computing.
};

/// The topology with the CPUs of `mask` that it does not know, each as a core of socket 0.
NodeTopology with_cores_of(NodeTopology topology, const CpuSet& mask);

/// The part of the mask to use; never more than the mask. kInvalidArgument: an empty mask, or all
/// hardware threads of a core (SmtUse::kAll) where the mask has only some of them.
Result<CpuSet> cpus_to_use(const NodeTopology& topology, const CpuSet& mask, SmtUse smt);

/// Decides every rank's CPUs. kInvalidArgument, with the remedy: more ranks than cores (kCores), a
/// map with fewer lists than ranks or with CPUs outside the rank's mask. Pure.
Result<std::vector<BoundRank>> bind_ranks(const NodeTopology& topology, const BindRequest& request);

/// Cores of the topology that the CPUs belong to.
int count_cores(const NodeTopology& topology, const CpuSet& cpus);
/// NUMA nodes of the CPUs, ascending.
std::vector<int> numas_of(const NodeTopology& topology, const CpuSet& cpus);

}  // namespace hvd
