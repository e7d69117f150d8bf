// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/command_line.h"

#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "header" || command == "script") {
    return parse_job(command, rest);
  }
  if (command == "check") return parse_check(rest);
  if (command == "run") return parse_run(rest, false);
  if (command == "explain") return parse_run(rest, true);
  return parse_run(arguments, false);
}

}  // namespace hvd
