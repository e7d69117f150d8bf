// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "backends/staged/staging.h"
#include "collective/backend.h"

namespace hvd {

/// BackendContext::start_on_host.
using StartOnHost = std::function<Result<std::unique_ptr<Task>>(Batch)>;

/// An allreduce (but Adasum), reduce or broadcast, whose elements do not depend on each other: cut
/// into pieces of a chunk each, so that the copies of one overlap the collective of another.
/// `staging` is null on a rank that only takes part (Batch::is_neutral), and there alone.
Result<std::unique_ptr<Task>> start_pieces(Staging* staging, const Communicator& communicator,
                                           const StartOnHost& start_on_host, Batch batch);

/// Any operation: all inputs to the host, the collective, all outputs to the device.
Result<std::unique_ptr<Task>> start_whole(Staging& staging, const Communicator& communicator,
                                          const StartOnHost& start_on_host, Batch batch);

}  // namespace hvd
