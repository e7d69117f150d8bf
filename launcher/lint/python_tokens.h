// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

enum class PythonTokenKind { kName, kNumber, kString, kOperator };

struct PythonToken {
  PythonTokenKind kind = PythonTokenKind::kOperator;
  std::string text;           ///< A string without its quotes, with its escapes as written.
  int line = 0;               ///< From 1.
  bool is_formatted = false;  ///< An f-string: its text holds names.
};

/// One logical line: with the lines that brackets and backslashes join, without comments.
struct PythonLine {
  int line = 0;    ///< Of its first token.
  int indent = 0;  ///< In columns; a tab goes to the next multiple of 8.
  std::vector<PythonToken> tokens;
};

/// The logical lines of a Python program. Never fails; what it does not understand becomes
/// operators of one letter.
std::vector<PythonLine> read_python(std::string_view text);

}  // namespace hvd
