// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"

namespace hvd {

/// Makes this thread, and the program that it executes, take memory from these NUMA nodes first and
/// from the others only when they are full. kSystem: a container forbids it; kUnsupported: the
/// kernel cannot (several nodes before Linux 5.15), and its own rule, nearest first, stays.
Status prefer_memory_of(const std::vector<int>& numas);

}  // namespace hvd
