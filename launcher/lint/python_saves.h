// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "launcher/lint/python_script.h"
#include "launcher/lint/python_values.h"

namespace hvd {

/// A call that writes a file.
struct PythonSave {
  const PythonCall* call = nullptr;
  std::optional<TokenRange> file = {};  ///< What names the file; absent: it is not seen.
  std::size_t file_line = 0;            ///< The index of the line of `file`.
  bool is_model = true;                 ///< The text shows that a model is written.
};

/// The calls that write a model, or what may be one.
std::vector<PythonSave> saves_of(const PythonScript& script, const PythonValues& values);

/// Whether a value names a file, or a buffer, that a process has for itself: io.BytesIO(), a
/// temporary file.
bool is_of_process(const PythonValues& values, std::size_t line_index, TokenRange file);

/// Whether a value looks like a path. A bare name that nothing like a path is given to does not.
bool is_like_path(const PythonScript& script, const PythonValues& values, std::size_t line_index,
                  TokenRange file);

}  // namespace hvd
