// SPDX-License-Identifier: Apache-2.0
#include "c/backend_table.h"

#include <array>

#include "backends/shm/shm_backend.h"
#include "backends/tcp/tcp_backend.h"

namespace hvd {

std::span<const BackendEntry> backend_table() {
  static const std::array<BackendEntry, 2> table{kShmBackend, kTcpBackend};
  return table;
}

std::vector<BackendEntry> job_backends(const MpiPlane& mpi) {
  if (mpi.session != nullptr) return {kShmBackend, mpi_entry(mpi)};
  return {kShmBackend, kTcpBackend, mpi_entry(mpi)};
}

}  // namespace hvd
