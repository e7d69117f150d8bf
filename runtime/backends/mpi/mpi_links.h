// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/lanes/lane_links.h"
#include "backends/mpi/mpi_session.h"
#include "collective/backend.h"

namespace hvd {

/// Frames of one communicator over MPI messages: a short payload follows its header, a long
/// one as a message of its own, received straight into its place.
std::unique_ptr<LaneLinks> make_mpi_links(const BackendContext& context,
                                          std::shared_ptr<MpiSession> session);

}  // namespace hvd
