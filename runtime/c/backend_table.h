// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "backends/mpi/mpi_backend.h"
#include "collective/backend.h"

namespace hvd {

/// The backends that are linked in, in order of preference; those that need more than a wired job
/// are not among them.
std::span<const BackendEntry> backend_table();

/// The table of a job. MPI, where it is used, takes the place of TCP; else it stands last and
/// declines. Needs as much shared memory as backend_table().
std::vector<BackendEntry> job_backends(const MpiPlane& mpi);

}  // namespace hvd
