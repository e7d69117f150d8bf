// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/command_table.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_completion(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Prints the completion of hvdrun for a shell: commands, options and their values, sites, "
      "partitions, programs. An installation puts it where the shell looks; elsewhere load it as "
      "in the examples.",
      "hvdrun completion", false);
  CompletionOptions options;
  app->add_option("SHELL", options.shell, "The shell")
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->add_option("--values", options.values, "Print the names of that kind, one a line")
      ->type_name("SITE|PARTITION")
      ->check(CLI::IsMember({"SITE", "PARTITION"}))
      ->group("");
  app->add_option("--site", options.site, "Whose partitions")->type_name("SITE")->group("");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "completion"));
  if (print) return CommandLine(*std::move(print));
  if (options.shell.empty() == options.values.empty()) {
    return usage("which shell? Type hvdrun completion bash, zsh or fish", "completion");
  }
  return CommandLine(std::move(options));
}

Result<CommandLine> parse_describe(const std::vector<std::string>& arguments) {
  auto app = make_app("Prints the table of commands for the build of man pages and reference.",
                      "hvdrun describe", false);
  DescribeOptions options;
  app->add_option("FORMAT", options.format, "commands, options, scdoc or markdown")
      ->required()
      ->type_name("commands|options|scdoc|markdown")
      ->check(CLI::IsMember({"commands", "options", "scdoc", "markdown"}));
  app->add_option("COMMAND", options.command, "The command")->type_name("COMMAND");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "describe"));
  if (print) return CommandLine(*std::move(print));
  const bool is_of_command = options.format == "options" || options.format == "scdoc";
  if (is_of_command && find_command(options.command) == nullptr) {
    return usage(format_text("no command '{}'", options.command), "describe");
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
