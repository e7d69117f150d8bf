// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"

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

/// A case on its way.
class RunningCase {
 public:
  explicit RunningCase(OperationCase planned);
  /// Waits; the first difference, or "".
  std::string finish();

 private:
  std::string difference(const std::byte* result, std::size_t count) const;

  OperationCase case_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  hvd_handle handle_ = 0;
};

}  // namespace hvd_test
