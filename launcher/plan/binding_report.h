// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/node/node_topology.h"
#include "launcher/plan/placement.h"
#include "topology/cpu_set.h"

namespace hvd {

/// The node's hardware threads in the order of its sockets, in mpirun's notation: a pair of
/// brackets per socket, '/' between cores, 'B' for a thread of `cpus`, '.' for another; '|' between
/// the NUMA nodes of a socket. "[BB/BB|../..][../..|../..]".
std::string draw_cpus(const NodeTopology& topology, const CpuSet& cpus);

/// "rank 3 on jz1: GPU 3 (0000:b2:00.0), NIC ib1, cores 30-39 [./.][B/B]": what --report-bindings
/// prints, without a line end.
std::string report_binding(const NodeTopology& topology, const RankPlacement& rank);

}  // namespace hvd
