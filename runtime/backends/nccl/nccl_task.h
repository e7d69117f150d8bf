// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/nccl/nccl_session.h"
#include "collective/backend.h"

namespace hvd {

/// A batch on GPU memory: counts where they differ by rank, then everything into the session's
/// stream, in log order, then the device.
Result<std::unique_ptr<Task>> start_nccl_task(NcclSession& session, Batch batch);

}  // namespace hvd
