// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bootstrap/wiring.h"
#include "collective/communicator.h"
#include "engine/protocol/negotiation.h"

namespace hvd {

/// The communicator of all ranks of a wired job, seen by this one. Pure.
Communicator world_of(const Wiring& wiring);

/// The place of this rank in the negotiation. Pure.
Negotiation::Place place_of(const Communicator& world, const Wiring& wiring);

/// Ranks that share this rank's CPUs: virtual nodes ("host/node1") are one machine. Pure.
int ranks_on_machine(const std::vector<PeerInfo>& peers, int rank);

}  // namespace hvd
