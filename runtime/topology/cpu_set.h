// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// CPU numbers as the kernel counts them, ascending, each once.
using CpuSet = std::vector<int>;

/// Reads the kernel's list form, "0-3,8". Anything else is kInvalidArgument.
Result<CpuSet> parse_cpu_set(std::string_view text);

/// The kernel's list form; empty for no CPU.
std::string format_cpu_set(const CpuSet& cpus);

}  // namespace hvd
