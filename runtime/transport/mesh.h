// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transport/job_key.h"
#include "transport/link.h"
#include "transport/listener.h"
#include "transport/socket_address.h"

namespace hvd {

enum class LinkPurpose : std::int32_t { kTree = 1, kLane = 2 };

/// One connection of this rank: to whom and what for.
struct LinkId {
  LinkPurpose purpose = LinkPurpose::kTree;
  int peer_rank = 0;
  int socket = 0;  ///< Of several to the same peer for the same purpose.
  auto operator<=>(const LinkId&) const = default;  // NOLINT(modernize-use-nullptr): has no null.
};

/// A peer of the mesh: the higher rank connects, the lower accepts.
struct MeshPeer {
  LinkId id;
  std::string host;
  std::vector<SocketAddress> addresses;
};

/// Makes one authenticated link per entry of `peers`. Every rank calls it with its own peers, at
/// about the same time. A peer that refuses, or is silent, is tried again until the deadline,
/// unless it holds another job's key. Strangers are refused and the mesh goes on. The error names
/// the ranks and hosts that did not answer, and the addresses and the interface of the way to them;
/// kAborted: the listener was interrupted. After an error the listener is, too.
Result<std::map<LinkId, std::unique_ptr<Link>>> build_mesh(int rank, const Listener& listener,
                                                           const JobKey& key,
                                                           const std::vector<MeshPeer>& peers,
                                                           Deadline deadline);

}  // namespace hvd
