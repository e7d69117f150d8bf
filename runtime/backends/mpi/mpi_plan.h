// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bootstrap/wiring.h"

namespace hvd {

/// What one rank has of MPI, told to all before the plane between nodes is chosen.
struct MpiFacts {
  bool is_wanted = false;  ///< HVD_BACKEND=mpi.
  bool is_initialised = false;
  bool is_thread_multiple = false;
  int size = 0;  ///< Of MPI_COMM_WORLD, where it is initialised; and my rank there.
  int rank = 0;
  std::string library;       ///< "Open MPI v4.1.4".
  std::string thread_level;  ///< "MPI_THREAD_FUNNELED".
  std::string fabric;        ///< "mlx5_0": a network that MPI knows better than TCP; or empty.
  std::string problem;       ///< Why this rank cannot, or has no reason to; empty: it can.
};

std::string encode(const MpiFacts& facts);
Result<MpiFacts> decode_facts(std::string_view bytes);

/// Whether the MPI plane runs between the nodes, and the sentence that says why.
struct MpiPlan {
  bool use = false;
  std::string reason;
};

/// Pure: the same on every rank. MPI is used where HVD_BACKEND=mpi asks for it, and where every
/// rank's program has initialised it with MPI_THREAD_MULTIPLE, the ranks live on several nodes and
/// each node has a fabric; TCP everywhere else.
MpiPlan plan_mpi(std::span<const PeerInfo> peers);

/// The name of the first fabric device under `root` (/sys), "" without one.
std::string find_fabric(const std::string& root);

}  // namespace hvd
