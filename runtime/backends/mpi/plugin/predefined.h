// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace hvd {

/// The handles that MPI defines: constants in one ABI, addresses of the library's data in another.
struct Predefined {
  MPI_Comm world;
  MPI_Comm no_communicator;
  MPI_Datatype byte;
  MPI_Datatype integer;
  MPI_Errhandler errors_return;
  MPI_Request no_request;
};

/// "Open MPI", "MPICH": as hvd_mpi_plugin::abi.
extern const char* const kAbiName;

/// Fills `handles` from `library`; the name of a symbol that is not there, else null.
const char* find_predefined(void* library, Predefined& handles);

}  // namespace hvd
