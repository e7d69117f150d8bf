// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

/// Whether a token is that operator, or that bracket.
inline bool is_operator(const PythonToken& token, std::string_view text) {
  return token.kind == PythonTokenKind::kOperator && token.text == text;
}

inline bool is_name(const PythonToken& token) { return token.kind == PythonTokenKind::kName; }

/// +1 where the token opens a bracket, -1 where it closes one.
inline int step_of_depth(const PythonToken& token) {
  if (token.kind != PythonTokenKind::kOperator || token.text.size() != 1) return 0;
  const char letter = token.text[0];
  if (letter == '(' || letter == '[' || letter == '{') return 1;
  return letter == ')' || letter == ']' || letter == '}' ? -1 : 0;
}

/// The token after the bracket that closes the one at `open`.
std::size_t end_of_brackets(const PythonLine& line, std::size_t open);

/// The ":" that ends a header; the number of tokens: there is none.
std::size_t colon_of(const PythonLine& line);

/// The names in the braces of an f-string, with those of its strings there.
std::vector<std::string> names_in_braces(std::string_view text);

}  // namespace hvd
