// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hvd {

/// Has `run`, which supervises a job and gives its exit code, go on in a process of its own: in
/// another session, with nothing to read, and with its output in a file. Says how to watch it. The
/// exit code is 0, or that of a job that fails within its first moments. Call before any thread
/// exists.
int detach_job(const std::vector<std::string>& command, const std::function<int()>& run);

}  // namespace hvd
