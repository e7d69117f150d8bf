// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/nccl/nccl_session.h"
#include "collective/backend.h"

namespace hvd {

/// Makes the communicator of a process set: the ranks tell each other what they have, agree whether
/// it will do, and let NCCL connect them. For `device`, that of this rank's first batch.
Result<std::unique_ptr<Task>> prepare_nccl(NcclSession& session, Device device);

}  // namespace hvd
