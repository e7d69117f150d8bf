// SPDX-License-Identifier: Apache-2.0
#include "world/world_backends.h"

#include <array>

#include "backends/shm/shm_backend.h"
#include "backends/tcp/tcp_backend.h"

namespace hvd {

std::span<const BackendEntry> world_backends() {
  static const std::array table = {kShmBackend, kTcpBackend};
  return table;
}

}  // namespace hvd
