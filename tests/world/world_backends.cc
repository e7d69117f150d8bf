// SPDX-License-Identifier: Apache-2.0
#include "world/world_backends.h"

#include <array>

#include "backends/nccl/nccl_backend.h"
#include "backends/shm/shm_backend.h"
#include "backends/staged/staged_backend.h"
#include "backends/tcp/tcp_backend.h"

namespace hvd {

std::span<const BackendEntry> world_backends() {
  static const std::array table = {kShmBackend, kTcpBackend, kNcclBackend, kStagedBackend};
  return table;
}

}  // namespace hvd
