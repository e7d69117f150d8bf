// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/command_line.h"

#include "launcher/options/command_table.h"

namespace hvd {
namespace {

Result<CommandLine> parse_any(const std::vector<std::string>& arguments) {
  const std::span<const CommandEntry> table = command_table();
  const CommandEntry* named = arguments.empty() ? nullptr : find_command(arguments.front());
  if (named == nullptr) return table.front().parse(arguments);
  return named->parse({arguments.begin() + 1, arguments.end()});
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  HVD_TRY_ASSIGN(CommandLine chosen, parse_any(arguments));
  if (std::holds_alternative<CommandDescription>(chosen)) {
    return error(Code::kInvalidArgument, "unknown option '{}'", kDescribe);
  }
  return chosen;
}

}  // namespace hvd
