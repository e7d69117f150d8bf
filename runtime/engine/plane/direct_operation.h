// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "collective/communicator.h"
#include "engine/request/pending_request.h"

namespace hvd {

/// What a rank does with the bytes of a small request that all ranks bring to a direct round (see
/// DirectRounds): nothing of it waits, and the results are those of the backends, bit for bit.

/// True where the request can be done so, within `room` bytes of each rank. Comes before the other
/// two; they hold for each later use of a request that differs in its memory alone.
bool fits_direct(PendingRequest& pending, const Communicator& communicator, std::size_t room);
/// Writes what this rank brings; returns how many bytes.
std::size_t bring_direct(const PendingRequest& pending, const Communicator& communicator,
                         std::byte* place);
/// Makes the results of this rank from the bytes of all, by rank. kSystem: no memory for them.
Status take_direct(PendingRequest& pending, const Communicator& communicator,
                   std::span<const void* const> places);

}  // namespace hvd
