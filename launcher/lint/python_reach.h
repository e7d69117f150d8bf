// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "launcher/lint/python_blocks.h"
#include "launcher/lint/python_guards.h"
#include "launcher/lint/python_script.h"

namespace hvd {

/// Which ranks reach a line.
enum class Reach {
  kSome,     ///< Something above it asks for the rank.
  kUnknown,  ///< Nothing in this file says who calls it.
  kAll,
};

/// Which ranks reach the lines of a program. Immutable after construction.
class PythonReach {
 public:
  PythonReach(const PythonScript& script, const std::vector<BlockPlace>& places,
              const PythonGuards& guards);

  /// Which ranks reach a token of a line.
  Reach at(std::size_t line_index, std::size_t token) const;

 private:
  void read_conditions(const PythonScript& script);
  void read_places(const PythonScript& script);
  bool is_guarded(std::size_t line_index, std::size_t token) const;

  const PythonGuards& guards_;
  const std::vector<BlockPlace>& places_;
  std::vector<bool> asks_;            ///< Headers whose condition asks for the rank.
  std::vector<bool> is_guarded_;      ///< Lines that a condition of their function guards.
  std::vector<Reach> of_definition_;  ///< By the line of "def" or "class".
};

}  // namespace hvd
