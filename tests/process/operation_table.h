// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "hvd/hvd.h"

namespace hvd_test {

/// GPU memory that tensors of the table are in.
class TableMemory {
 public:
  virtual ~TableMemory() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  /// Between it and the host; the copies are done when they return.
  virtual void put(void* device, const void* host, std::size_t bytes) = 0;
  virtual void get(void* host, const void* device, std::size_t bytes) = 0;
  /// Tells a request where its tensors are.
  virtual void name_place(hvd_request& request) const = 0;
};

/// Where the table runs: a process set that this rank is in.
struct TableScope {
  int process_set = 0;
  std::vector<int> ranks;         ///< Of the job, ascending.
  int me = 0;                     ///< Rank of the job.
  TableMemory* memory = nullptr;  ///< Null: that of the host.
};

/// Bytes of the tensors: none, one element, an odd number, one beyond 64 KiB, 1 MiB.
std::span<const std::size_t> table_sizes();

/// Runs every operation with every type over tensors of about `bytes` and compares each element
/// with a reference in float64. The first difference, or "". Throws hvd::Error.
std::string wrong_operations(const TableScope& scope, std::size_t bytes);

}  // namespace hvd_test
