// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/identity.h"

namespace hvd {

/// Two families of MPI libraries that take the same binary calls.
enum class MpiAbi { kOpenMpi, kMpich };

/// An MPI library of this process, open for dlsym as long as the process lives.
struct LoadedMpi {
  void* library;
  MpiAbi abi;
};

/// The MPI libraries in this process, the program's own first. None is loaded for it.
std::vector<LoadedMpi> loaded_mpi();

/// The family of an open library; nothing where it is not an MPI, or one of another family.
std::optional<MpiAbi> mpi_abi_of(void* library);

/// True where this process has an MPI library, which may be the one client of a PMI server.
bool mpi_is_loaded();

/// Ranks of MPI_COMM_WORLD, where the program has initialised MPI before; nothing elsewhere. No MPI
/// is linked or loaded for it.
std::optional<int> initialised_mpi_size();

/// The warning where MPI's world is not the launcher's: most often N worlds of one rank, since MPI
/// was started by srun without a PMI that it knows. Empty where both agree.
std::string describe_mpi_mismatch(const Identity& identity, int mpi_size);

}  // namespace hvd
