// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/set_variable.h"

namespace hvd {

/// One word of a command, without its quotes.
struct ShellWord {
  std::string text;
  TextRange at;              ///< With its quotes.
  bool is_expanded = false;  ///< Holds $x, $(x), `x` or a pattern: only the shell knows its text.
  bool is_quoted_at_0 = false;  ///< Begins with a quote: no assignment, no keyword.
};

/// One simple command of a script.
struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 0;            ///< Of its first word, from 1.
  TextRange line_at;       ///< The lines it stands on, with their ends.
  bool is_alone = false;   ///< Nothing else stands on those lines.
  bool is_nested = false;  ///< In an if, a loop, a function, a subshell or a pipe.
};

/// The simple commands of the part of `text` from `begin` on. Enough of a shell's grammar to find
/// exports, modules and launches: quotes, comments, continued lines, here-documents, separators,
/// keywords. Never fails; what it does not understand becomes words.
std::vector<ShellCommand> split_commands(std::string_view text, std::size_t begin);

/// The number of the line that byte `at` is on, from 1.
int line_of(std::string_view text, std::size_t at);

}  // namespace hvd
