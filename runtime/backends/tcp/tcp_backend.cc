// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/tcp_backend.h"

#include <algorithm>

#include "backends/lanes/lane_backend.h"
#include "backends/node/node_plane.h"
#include "backends/tcp/tcp_links.h"

namespace hvd {
namespace {

Result<std::unique_ptr<Backend>> create_tcp(const BackendContext& context) {
  const Communicator& communicator = context.communicator;
  if (communicator.node_count() == 1) {
    return error(Code::kUnsupported, "tcp serves several nodes, and all ranks live on one");
  }
  const auto open = std::count_if(context.lane.begin(), context.lane.end(),
                                  [](const Link* link) { return link != nullptr; });
  const bool is_lane = communicator.local_rank < context.lanes;
  const int wanted = (communicator.node_count() - 1) * context.sockets;
  if (context.lanes < 1 || (is_lane && open != wanted)) {
    return error(Code::kUnsupported,
                 "tcp: rank {} has {} connections to the {} other nodes of this process set, and "
                 "not {} to each",
                 communicator.rank, open, communicator.node_count() - 1, context.sockets);
  }
  return make_lane_backend(kTcpBackend.name, context, make_tcp_links(context),
                           describe_tcp_links(context));
}

}  // namespace

const BackendEntry kTcpBackend = {
    .name = "tcp", .memory_bytes = &NodePlane::memory_bytes, .create = &create_tcp};

}  // namespace hvd
