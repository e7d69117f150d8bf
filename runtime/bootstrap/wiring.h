// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/set_wiring.h"
#include "bootstrap/store.h"
#include "transport/link.h"
#include "transport/node_group.h"

namespace hvd {

/// What every rank knows of a peer once the job is wired.
struct PeerInfo {
  int rank = 0;
  std::string host;    ///< Host name, "host/node1" for virtual nodes.
  int node = 0;        ///< Index of its NodeGroup, by ascending lowest rank.
  int local_rank = 0;  ///< Place in its NodeGroup.
  long pid = 0;
  int usable_cpus = 1;  ///< CPUs in its affinity mask, capped by the cgroup quota.
  std::string mpi;      ///< What it said of MPI: BootstrapOptions::mpi.
};

/// The connections of this rank, ready for an Engine. Moved into it.
struct Wiring {
  int rank = 0;
  int size = 1;
  /// The local rank that hvdrun gave in an elastic job, where it stays when ranks change; -1: that
  /// of `peers`.
  int given_local_rank = -1;
  std::vector<PeerInfo> peers;  ///< By rank, myself included.
  NodeGroup node;
  /// Control links of a tree over the node leaders (local rank 0): only leaders have any.
  /// parent is null at the root (the node of rank 0) and on ranks that are not leaders.
  std::unique_ptr<Link> parent;
  std::vector<std::unique_ptr<Link>> children;
  /// Data links to the ranks with my lane on the other nodes, [node * sockets + socket]; null for
  /// my own node, and all null when my local rank is not below the number of lanes (the smallest
  /// node's size).
  std::vector<std::unique_ptr<Link>> lane;
  int sockets = 1;
  int lanes = 0;                    ///< Smallest node's local size; 0 when there is one node.
  std::unique_ptr<SetWiring> sets;  ///< Connects process sets, as long as the job lasts.
  std::string bootstrap;            ///< How the ranks found each other: "hvdrun", "slurm file", ...
  std::string bootstrap_reason;     ///< One line: methods declined before it, and why.
};

}  // namespace hvd
