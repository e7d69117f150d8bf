// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_error.h"

#include <sys/statvfs.h>

#include "base/format.h"

namespace hvd {

Code code_of(ncclResult_t result, NcclPhase phase) {
  switch (result) {
    case ncclRemoteError:
      return Code::kPeerLost;
    case ncclSystemError:
    case ncclUnhandledCudaError:
      return Code::kSystem;
    case ncclInvalidUsage:
      // A variable of NCCL's asks for what is not there, before we have asked for anything odd.
      return phase == NcclPhase::kConnecting ? Code::kSystem : Code::kInternal;
    default:
      return Code::kInternal;
  }
}

ShmRoom shm_room(const char* path) {
  struct statvfs facts {};
  if (::statvfs(path, &facts) != 0) return {};
  return {std::uint64_t{facts.f_blocks} * facts.f_frsize,
          std::uint64_t{facts.f_bavail} * facts.f_frsize};
}

std::string hint_of(ncclResult_t result, NcclPhase phase, const ShmRoom& room) {
  if (result == ncclInvalidUsage && phase == NcclPhase::kConnecting) {
    return "; look at the NCCL_* variables of this rank, NCCL_DEBUG=WARN says what NCCL minds";
  }
  if (result != ncclSystemError) return {};
  std::string hint = "; NCCL_DEBUG=INFO says which call of the system failed";
  if (phase == NcclPhase::kConnecting && room.total > 0) {
    hint += format_text(
        "; NCCL connects GPUs through /dev/shm, which has {} MiB here, {} MiB of them free: a "
        "container gets more by --shm-size, others may have left files there",
        room.total >> 20, room.free >> 20);
  }
  return hint;
}

}  // namespace hvd
