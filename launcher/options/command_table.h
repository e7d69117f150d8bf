// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/options/command_description.h"
#include "launcher/options/command_line.h"

namespace hvd {

/// One command of hvdrun. Its parser declares the options; the words around them are here.
struct CommandEntry {
  std::string_view name;
  std::string_view group;    ///< Under which --help lists it; empty: not listed.
  std::string_view summary;  ///< One line, without full stop.
  /// What follows the options; with PROGRAM in it, all from there on is the program's.
  std::string_view operands;
  CommandExample examples[3];  ///< At most; an empty line is none.
  Result<CommandLine> (*parse)(const std::vector<std::string>& arguments);
};

/// Every command, in the order in which they are listed. The first is `run`, which needs no name.
/// Help, completion, man pages and docs/reference/hvdrun.md are made from this table.
std::span<const CommandEntry> command_table();

/// The command of that name, or nullptr.
const CommandEntry* find_command(std::string_view name);

CommandDescription describe_command(const CommandEntry& entry);

/// Those that are listed, in the order of the table.
std::vector<CommandDescription> describe_commands();

}  // namespace hvd
