// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/python_script.h"

namespace hvd {

/// A Python program: the file that is started, and the modules beside it that it imports.
struct PythonProgram {
  PythonScript script;
  std::vector<PythonScript> modules = {};
};

/// What can be seen in the text of the file that is started; what the modules do counts as done.
/// A finding that rests on what is not seen is a note, and says so. Pure.
std::vector<Finding> lint_python(const PythonProgram& program);

/// Whether a file is a Python program: by its name, or by the interpreter of its first line.
bool is_python(std::string_view path, std::string_view text);

/// Reads the program at `path` with those modules beside it that can be read.
PythonProgram read_python_program(const std::string& path, std::string_view text);

}  // namespace hvd
