// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/node/exchange.h"
#include "backends/node/node_plane.h"
#include "backends/node/rooted.h"
#include "collective/backend.h"

namespace hvd {

/// How the bytes of a plane travel.
struct MovingTransfers {
  RootedTransferFactory rooted;
  ExchangeFactory exchange;
};

/// An allgather, alltoall, gather or scatter: tells all ranks the counts, lays out the results,
/// then moves the rows. In one node what is small travels with the counts, in one synchronisation.
std::unique_ptr<Task> make_moving_task(NodePlane& plane, const Communicator& communicator,
                                       Batch batch, MovingTransfers transfers);

}  // namespace hvd
