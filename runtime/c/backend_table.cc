// SPDX-License-Identifier: Apache-2.0
#include "c/backend_table.h"

#include <array>

#include "backends/nccl/nccl_backend.h"
#include "backends/shm/shm_backend.h"
#include "backends/staged/staged_backend.h"
#include "backends/tcp/tcp_backend.h"

namespace hvd {

std::span<const BackendEntry> backend_table() {
  static const std::array table{kShmBackend, kTcpBackend, kNcclBackend, kStagedBackend};
  return table;
}

std::vector<BackendEntry> job_backends(const MpiPlane& mpi) {
  const auto linked = backend_table();
  std::vector<BackendEntry> table(linked.begin(), linked.end());
  if (mpi.session != nullptr) {
    std::erase_if(table, [](const BackendEntry& entry) { return entry.name == kTcpBackend.name; });
  }
  table.push_back(mpi_entry(mpi));
  return table;
}

}  // namespace hvd
