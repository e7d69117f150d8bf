// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/lanes/lane_links.h"
#include "collective/backend.h"

namespace hvd {

/// The collectives over several nodes: shared memory within each node, one lane per local rank
/// between them. `links` carries my lane's frames; null where this rank drives none. `name` is that
/// of the table entry, and outlives the backend; `carrier` says for people what moves the frames.
/// context.memory is as NodePlane::memory_bytes says.
Result<std::unique_ptr<Backend>> make_lane_backend(std::string_view name,
                                                   const BackendContext& context,
                                                   std::unique_ptr<LaneLinks> links,
                                                   std::string carrier);

}  // namespace hvd
