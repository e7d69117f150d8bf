// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backends/lanes/lane_links.h"
#include "collective/backend.h"

namespace hvd {

/// Frames over the sockets of `context.lane`; null where this rank drives no lane.
std::unique_ptr<LaneLinks> make_tcp_links(const BackendContext& context);

/// "TCP, 2 sockets to each node and lane, here through eth0 10.0.0.1".
std::string describe_tcp_links(const BackendContext& context);

}  // namespace hvd
