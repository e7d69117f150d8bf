// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "nccl_vendor.h"

namespace hvd {

/// What a communicator was at when a call failed.
enum class NcclPhase {
  kConnecting,  ///< It is being made: no byte has moved.
  kRunning,     ///< It is there, and collectives may be under way.
};

/// What a caller can do about it. kPeerLost is said only where NCCL itself says that a remote rank
/// is lost: failures of the system have many causes, of which the end of another rank is one, and
/// of that the host hears by itself.
Code code_of(ncclResult_t result, NcclPhase phase);

/// How much memory for sharing (/dev/shm) there is; nothing where it cannot be told.
struct ShmRoom {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};
ShmRoom shm_room(const char* path = "/dev/shm");

/// What to try, as the end of a sentence ("; NCCL_DEBUG=INFO says ..."); may be empty. Pure.
std::string hint_of(ncclResult_t result, NcclPhase phase, const ShmRoom& room);

}  // namespace hvd
