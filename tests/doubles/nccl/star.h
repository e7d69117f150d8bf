// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

namespace double_nccl {

/// Begins the star of one communicator: a thread of this process that its ranks connect to, through
/// an abstract Unix socket that the id names. It ends when all of them have left. The id's bytes
/// are zero where no socket can be had. Thread-safe.
ncclUniqueId make_star();

/// The socket that an id names.
std::string socket_of(const ncclUniqueId& id);

}  // namespace double_nccl
