// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/meeting_settings.h"
#include "transport/interfaces.h"
#include "transport/socket_address.h"

namespace hvd {

/// What a rank tells all others about itself before they are connected.
struct PeerRecord {
  std::string version;  ///< Of libhvd; all ranks must agree.
  std::string host;
  std::string machine;                ///< machine_key(): equal where memory could be shared.
  int virtual_node = -1;              ///< -1: none.
  std::string abstract_name;          ///< Of its Unix socket.
  std::vector<Interface> interfaces;  ///< Under which others may reach it; the best first.
  int sockets = 0;                    ///< HVD_TCP_SOCKETS; 0: not set.
  std::uint16_t port = 0;
  std::int64_t pid = 0;
  int usable_cpus = 1;
  std::string gpu;      ///< HVD_GPU_ID; empty: none, not known, or free to be shared.
  std::string mpi;      ///< BootstrapOptions::mpi.
  std::string backend;  ///< HVD_BACKEND; all ranks must agree.

  /// Ranks with equal group keys try to share memory.
  std::string group_key() const;
  std::string label() const;  ///< "host", "host/node1".
};

std::string encode(const PeerRecord& record);
Result<PeerRecord> decode_record(std::string_view bytes);
/// Everything but the sockets' names.
Result<PeerRecord> describe_myself(const MeetingSettings& settings, const Environment& environment);

/// Where `mine` reaches the TCP port `port` of `other`, most likely first; over which of several
/// equal NICs depends on `rail`.
Result<std::vector<SocketAddress>> addresses_between(const PeerRecord& mine,
                                                     const PeerRecord& other, std::uint16_t port,
                                                     int rail);

/// What speaks against the interfaces that this rank offers, where there are other hosts; empty:
/// nothing.
std::string doubt_network(const std::vector<PeerRecord>& records, int rank);

/// TCP connections for each lane and pair of nodes: what rank 0 was told (HVD_TCP_SOCKETS), else
/// as many as it takes for the lanes to use every NIC. The same on every rank.
int sockets_per_lane(const std::vector<PeerRecord>& records, int lanes);

/// Ranks by node: nodes by ascending lowest rank, ranks ascending.
std::vector<std::vector<int>> group_by_node(const std::vector<PeerRecord>& records);
/// kInvalidArgument, naming both hosts, where this rank was told that all ranks are local and one
/// of them is on another host. `local_size`: -1 where it was not told.
Status check_layout(const std::vector<PeerRecord>& records, int rank, int local_size);
/// kMismatch when two ranks run different versions.
Status check_versions(const std::vector<PeerRecord>& records);
/// kMismatch when two ranks were told to use different backends: they would not meet.
Status check_backends(const std::vector<PeerRecord>& records);
/// kInvalidArgument, the same on every rank, when two ranks of a host chose one GPU.
Status check_gpus(const std::vector<PeerRecord>& records);

}  // namespace hvd
