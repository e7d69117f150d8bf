// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/node/node_topology.h"

namespace hvd {

/// What connects the nodes, as far as one node's NICs tell.
enum class FabricKind {
  kNone,  ///< No interface but the loopback.
  kEthernet,
  kRoce,
  kInfiniBand,
  kOmniPath,
  kAries,
  kSlingshot10,
  kSlingshot11,
  kEfa,
};

/// "InfiniBand", "Slingshot 11", ... as users write it.
std::string_view fabric_name(FabricKind kind);

/// One port that is not used, and why.
struct UnusedNic {
  std::string name;  ///< Of its RDMA device, else of its interface.
  std::string why;
};

/// The fabric of a node and what of it a job's traffic may use.
struct Fabric {
  FabricKind kind = FabricKind::kNone;
  std::string evidence;              ///< One clause: "mlx5_0 and mlx5_1 are InfiniBand ports ...".
  std::vector<int> nics;             ///< Usable ports, as they stand in the list; fastest only.
  std::vector<std::string> devices;  ///< Their RDMA devices, each once (NCCL_IB_HCA).
  std::vector<std::string> interfaces;  ///< Network interfaces on the fabric (NCCL_SOCKET_IFNAME).
  std::vector<UnusedNic> unused;        ///< The other ports.
};

/// Names the fabric: the first kind of Slingshot 11, Aries, Omni-Path, EFA, InfiniBand, Slingshot
/// 10, RoCE and Ethernet that has a port which is up. Pure.
Fabric detect_fabric(const std::vector<NodeNic>& nics);

}  // namespace hvd
