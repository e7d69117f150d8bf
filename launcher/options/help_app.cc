// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/command_table.h"
#include "launcher/options/nearest.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_help(const std::vector<std::string>& arguments) {
  auto app =
      make_app("Prints the help of hvdrun, or of one of its commands.", "hvdrun help", false);
  std::string name = "run";
  app->add_option("COMMAND", name, "The command (default: hvdrun itself)")->type_name("COMMAND");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "help"));
  if (print) return CommandLine(*std::move(print));
  if (const CommandEntry* entry = find_command(name)) return entry->parse({"--help"});
  std::vector<std::string> known;
  for (const CommandDescription& command : describe_commands()) known.push_back(command.name);
  std::string list;
  for (const std::string& command : known) list += (list.empty() ? "" : ", ") + command;
  const std::string meant = nearest(name, known);
  return error(Code::kInvalidArgument, "no command '{}': there are {}{}{}{}", name, list,
               meant.empty() ? "" : "\nhint: did you mean ", meant, meant.empty() ? "" : "?");
}

}  // namespace hvd
