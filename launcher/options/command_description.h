// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// The group of the options that were given none.
constexpr std::string_view kPlainGroup = "Options";

/// One option of a command, or an operand it names (`FILE`).
struct OptionDescription {
  std::vector<std::string> names;  ///< As typed: "-n", "-np"; empty: an operand.
  /// "" for a flag, else what stands for the value. By it completion knows the candidates:
  /// "cores|none" lists them (a part with capitals, "map:LIST", is completed up to there); SITE,
  /// PARTITION, COMMAND, FILE, DIR and PROGRAM are kinds of names; others are free text.
  std::string value;
  std::string meaning;
  std::string group;
  bool is_repeatable = false;

  bool is_operand() const { return names.empty(); }
  bool takes_value() const { return !value.empty(); }
  /// The values it lists: {"cores", "none", "map:"} of "cores|none|map:LIST".
  std::vector<std::string> choices() const;
};

/// A command line worth copying, and what it does.
struct CommandExample {
  std::string_view line;
  std::string_view effect;
};

/// All that help, completion, man pages and the reference say about a command.
struct CommandDescription {
  std::string name;      ///< "header"
  std::string group;     ///< Under which it is listed; empty: not listed.
  std::string summary;   ///< One line, without full stop.
  std::string about;     ///< A sentence or more.
  std::string operands;  ///< "PROGRAM [ARGUMENTS...]"
  std::vector<OptionDescription> options;
  std::vector<CommandExample> examples;

  /// "hvdrun" for `run`, else "hvdrun header".
  std::string invocation() const;
  bool takes_program() const { return operands.find("PROGRAM") != std::string::npos; }
  /// The groups of the options, in order of appearance.
  std::vector<std::string> option_groups() const;
};

/// "-n, -np N", or "FILE".
std::string spelling(const OptionDescription& option);

/// `text` in lines of at most `width` columns, a word longer than that in a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// "  term      meaning" in lines of at most `width` columns, the meaning from `column` on; a long
/// term has a line of its own.
std::string explained_term(const std::string& term, std::string_view meaning, std::size_t column,
                           std::size_t width);

/// The longest lines of help, and those where nobody knows how wide the terminal is.
constexpr std::size_t kHelpWidth = 100;

/// What --help prints; with `commands` (those to list) it is the help of hvdrun as a whole.
std::string help_text(const CommandDescription& command,
                      const std::vector<CommandDescription>& commands,
                      std::size_t width = kHelpWidth);

}  // namespace hvd
