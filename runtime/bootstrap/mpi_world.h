// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "topology/identity.h"

namespace hvd {

/// True where this process has an MPI library, which may be the one client of a PMI server.
bool mpi_is_loaded();

/// Ranks of MPI_COMM_WORLD, where the program has initialised MPI before; nothing elsewhere. No MPI
/// is linked or loaded for it.
std::optional<int> initialised_mpi_size();

/// The warning where MPI's world is not the launcher's: most often N worlds of one rank, since MPI
/// was started by srun without a PMI that it knows. Empty where both agree.
std::string describe_mpi_mismatch(const Identity& identity, int mpi_size);

}  // namespace hvd
