// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// NCCL's RAS, which knows the communicators of the whole job and what is wrong with them: a text
/// protocol on a port of this host. Source: NCCL user guide, Troubleshooting, RAS.

/// What it answers to STATUS. Waits until the deadline: for threads made for it.
Result<std::string> ask_ras(const std::string& address, Deadline deadline);
/// The errors and warnings of an answer, at most some lines; empty: there are none.
std::string ras_findings(std::string_view answer);

}  // namespace hvd
