// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace double_nccl {

/// Answers the text protocol of NCCL's RAS at host:port (port 0: any) on a thread of its own until
/// the process ends. The port, or -1. Thread-safe, as all here.
int serve_ras(const std::string& address);

/// The ranks that the others of a communicator wait for, for RAS to tell; `star` tells one from
/// another. Empty: nobody waits.
void report_awaited(const void* star, const std::vector<int>& ranks);

}  // namespace double_nccl
