// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/describe/pages.h"

namespace hvd {
namespace {

std::string page_name(const CommandDescription& command) {
  return command.name == "run" ? "hvdrun" : "hvdrun-" + command.name;
}

/// `text` with what scdoc reads as marks taken literally.
std::string plain(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (std::string_view("\\_*#[]|<>~`").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string bold(std::string_view text) { return "*" + plain(text) + "*"; }

/// "*-n*, *-np* _N_"
std::string option_term(const OptionDescription& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + bold(name);
  if (!option.takes_value()) return text;
  // Not underlined: a mark inside a word ("N[@TIME]", "cores|none") is none to scdoc.
  return text + (text.empty() ? "" : " ") + plain(option.value);
}

std::string options_section(const CommandDescription& command) {
  std::string text = "# OPTIONS\n\n";
  for (const std::string& group : command.option_groups()) {
    if (group != kPlainGroup) text += format_text("## {}\n\n", plain(group));
    for (const OptionDescription& option : command.options) {
      if (option.group != group) continue;
      text += format_text("{}\n\t{}.\n\n", option_term(option), plain(option.meaning));
    }
  }
  return text;
}

std::string commands_section(const std::vector<CommandDescription>& commands) {
  std::string text = "# COMMANDS\n\n";
  for (const CommandDescription& command : commands) {
    if (command.name == "run") continue;
    text += format_text("*hvdrun {}*\n\t{}. See *hvdrun-{}*(1).\n\n", command.name,
                        plain(command.summary), command.name);
  }
  return text;
}

}  // namespace

std::string man_page(const CommandDescription& command,
                     const std::vector<CommandDescription>& commands) {
  const bool is_whole = command.name == "run";
  std::string text =
      format_text("{}(1) \"hvdrun {}\" \"User Commands\"\n\n", page_name(command), HVD_VERSION);
  text += format_text("# NAME\n\n{} - {}\n\n", page_name(command), plain(command.summary));
  text += format_text("# SYNOPSIS\n\n*{}* \\[OPTIONS\\] {}\n\n", command.invocation(),
                      plain(command.operands));
  text += format_text("# DESCRIPTION\n\n{}\n\n", plain(command.about));
  text += options_section(command);
  if (is_whole) text += commands_section(commands);
  text += "@PROSE@\n\n# EXAMPLES\n\n";
  for (const CommandExample& example : command.examples) {
    text += format_text("{}\n\t{}.\n\n", bold(example.line), plain(example.effect));
  }
  text += "# SEE ALSO\n\n";
  return text + (is_whole ? "*hvdrun-site*(5), *srun*(1), *sbatch*(1)\n"
                          : "*hvdrun*(1), *hvdrun-site*(5)\n");
}

}  // namespace hvd
