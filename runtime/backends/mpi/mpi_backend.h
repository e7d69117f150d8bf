// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backends/mpi/mpi_session.h"
#include "collective/backend.h"

namespace hvd {

/// The MPI plane of this process: collectives over several nodes, shared memory within each, and
/// MPI messages between the lanes.
struct MpiPlane {
  std::shared_ptr<MpiSession> session;  ///< Null where MPI is not used.
  std::string reason;                   ///< Why it is, or is not.
};

/// After the ranks have met: decides with `peers`, and opens MPI where it is used. Collective.
Result<MpiPlane> open_mpi_plane(MpiProbe probe, const Wiring& wiring, Deadline deadline);

/// The line of the backend table; without a session it declines with the reason.
BackendEntry mpi_entry(const MpiPlane& plane);

}  // namespace hvd
