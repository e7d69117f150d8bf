// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/lint/python_bindings.h"
#include "launcher/lint/python_blocks.h"
#include "launcher/lint/python_script.h"

namespace hvd {

/// What the names of a program were given, as far as its text says; borrows all it is built from.
/// Immutable after construction.
class PythonValues {
 public:
  /// Asked about each token of a value.
  using Predicate = std::function<bool(const PythonLine& line, std::size_t at)>;

  PythonValues(const PythonScript& script, const std::vector<BlockPlace>& places,
               const std::vector<PythonBinding>& bindings);

  /// What a name has on a line: the last value before it in its function, or what calls give to the
  /// parameter, or what the name has elsewhere. Not all of many.
  std::vector<const PythonBinding*> of(std::size_t line_index, const std::string& name) const;

  /// Whether a token of a value, or of what the value's names were given, is of a kind.
  bool any(std::size_t line_index, TokenRange value, const Predicate& predicate) const;

 private:
  const PythonBinding* last_before(std::size_t line_index,
                                   const std::vector<const PythonBinding*>& all) const;

  const PythonScript& script_;
  const std::vector<BlockPlace>& places_;
  /// By name, and the function whose parameter it is; by line within.
  std::map<std::pair<std::string, std::size_t>, std::vector<const PythonBinding*>> bindings_;
};

}  // namespace hvd
