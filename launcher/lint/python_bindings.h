// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/lint/python_blocks.h"
#include "launcher/lint/python_script.h"

namespace hvd {

/// A name, and a value that it is given.
struct PythonBinding {
  std::string name;
  std::size_t line_index = 0;  ///< Of the value.
  TokenRange value;
  bool is_whole = true;            ///< The name is the value, not an element or a part of it.
  std::size_t function = kNoLine;  ///< The "def" whose parameter the name is; of others none.
};

/// What assignments, "for", "with" and "return" give to names, a function's own being given what it
/// returns, and what the calls of the file's functions give to their parameters.
std::vector<PythonBinding> bindings_of(const PythonScript& script,
                                       const std::vector<BlockPlace>& places);

}  // namespace hvd
