// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// Passes descriptors over a Unix socket (SCM_RIGHTS), as many messages as it takes.
Status send_fds(int socket, std::span<const int> fds, Deadline deadline);
/// Receives exactly `count` descriptors, close-on-exec.
Result<std::vector<UniqueFd>> receive_fds(int socket, std::size_t count, Deadline deadline);

}  // namespace hvd
