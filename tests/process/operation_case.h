// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"
#include "operation_table.h"

namespace hvd_test {

/// One operation on one tensor: what this rank gives, and what it must get.
struct OperationCase {
  std::string name;
  hvd_request request = HVD_REQUEST_INITIALIZER;
  hvd_dtype dtype = HVD_FLOAT32;
  std::size_t count = 0;  ///< Elements of the input.
  std::vector<std::int64_t> splits = {};
  bool in_place = false;
  bool has_output = false;  ///< Its result has the shape of its input, in memory of the caller.

  std::function<double(std::size_t)> given;   ///< Component i of the input.
  std::function<double(std::size_t)> wanted;  ///< Component i of the result.
  std::size_t wanted_count = 0;               ///< Elements of the result.
  double tolerance = 0;                       ///< Relative to 1 + |wanted|.
};

/// Bytes that an operation reads or writes: on the host, or in GPU memory with a copy on the host.
class CaseBytes {
 public:
  CaseBytes() = default;
  CaseBytes(std::vector<std::byte> bytes, TableMemory* memory);
  CaseBytes(CaseBytes&& other) noexcept;
  CaseBytes& operator=(CaseBytes&&) = delete;
  ~CaseBytes();
  void* place() { return memory_ == nullptr ? bytes_.data() : device_; }
  /// What is there now.
  const std::byte* read();

 private:
  std::vector<std::byte> bytes_;
  TableMemory* memory_ = nullptr;
  void* device_ = nullptr;
};

/// A case on its way.
class RunningCase {
 public:
  /// `memory`: null for that of the host.
  RunningCase(OperationCase planned, TableMemory* memory);
  /// Waits; the first difference, or "".
  std::string finish();

 private:
  std::string difference(const std::byte* result, std::size_t count) const;

  OperationCase case_;
  TableMemory* memory_;
  CaseBytes input_;
  CaseBytes output_;
  hvd_handle handle_ = 0;
};

}  // namespace hvd_test
