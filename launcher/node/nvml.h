// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/node/node_topology.h"

namespace hvd {

/// The name of NVIDIA's management library, which comes with its driver.
inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Asks NVML for what the driver's files do not say: UUIDs of MIG instances, and models and UUIDs
/// that are still empty. Where the library is missing, or refuses, nothing changes. It starts the
/// driver's tables, which takes tens of milliseconds: only for who needs it.
void add_nvml_names(const std::string& library, NodeTopology& topology);

/// Whether the NVIDIA GPUs of a node reach each other's memory, as far as NVML says it.
struct PeerAccess {
  struct Pair {
    std::string one;  ///< Bus ids.
    std::string other;
    std::string reason;
  };
  int gpus = 0;
  std::vector<Pair> missing;
};
/// Nothing where NVML cannot be asked, knows fewer than two of the GPUs, or has not answered for
/// every pair.
std::optional<PeerAccess> ask_peer_access(const std::string& library, const NodeTopology& topology);

}  // namespace hvd
