// SPDX-License-Identifier: Apache-2.0
// Programs that a stranger wrote, cut off anywhere: they are read, and lines of findings lie
// within.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "launcher/lint/python_program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const int lines = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  const hvd::PythonProgram program{hvd::parse_python(text), {}};
  for (const hvd::PythonLine& line : program.script.lines) HVD_CHECK(!line.tokens.empty());
  for (const hvd::Finding& finding : hvd::lint_python(program)) {
    HVD_CHECK(finding.line >= 0 && finding.line <= lines);
  }
  return 0;
}
