// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hvd_test {

/// Where the table runs: a process set that this rank is in.
struct TableScope {
  int process_set = 0;
  std::vector<int> ranks;  ///< Of the job, ascending.
  int me = 0;              ///< Rank of the job.
};

/// Bytes of the tensors: none, one element, an odd number, one beyond 64 KiB, 1 MiB.
std::span<const std::size_t> table_sizes();

/// Runs every operation with every type over tensors of about `bytes` and compares each element
/// with a reference in float64. The first difference, or "". Throws hvd::Error.
std::string wrong_operations(const TableScope& scope, std::size_t bytes);

}  // namespace hvd_test
