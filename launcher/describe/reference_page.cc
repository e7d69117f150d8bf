// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/console/words.h"
#include "launcher/describe/completion.h"
#include "launcher/describe/pages.h"

namespace hvd {
namespace {

constexpr std::string_view kPageHead = R"(# hvdrun

Printed by `hvdrun describe markdown`; a test holds it to that, and `tests/unit/launcher/describe/reference_test.sh build/launcher/hvdrun
docs/reference/hvdrun.md --update` writes it anew. The same is in `hvdrun COMMAND --help` and in `man hvdrun-COMMAND`.
Exit codes: [exit-codes.md](exit-codes.md); variables: [environment.md](environment.md).

| command | what it does |
|---|---|
)";

/// Text in a cell of a table.
std::string cell(std::string text) { return replaced(std::move(text), "|", "\\|"); }

std::string option_cell(const OptionDescription& option) {
  if (option.is_operand()) return "`" + cell(option.value) + "`";
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(
        "`" + name +
        (&name == &option.names.back() && option.takes_value() ? " " + cell(option.value) : "") +
        "`");
  }
  return joined(names, ", ");
}

std::string examples(const CommandDescription& command) {
  std::string text;
  for (const CommandExample& example : command.examples) {
    text += format_text("- `{}`: {}\n", example.line, example.effect);
  }
  return text;
}

std::string command_section(const CommandDescription& command) {
  const bool is_run = command.name == "run";
  std::string text = format_text("\n## {}\n\n", is_run ? "hvdrun run" : command.invocation());
  text += format_text("    {} [OPTIONS]{}{}\n\n{}\n", command.invocation(),
                      command.operands.empty() ? "" : " ", command.operands, command.about);
  if (is_run) text += "The word `run` may be left out.\n";
  if (command.name == "explain")
    return text + "Its options are those of `hvdrun run`.\n\n" + examples(command);
  text += "\n| option | meaning |\n|---|---|\n";
  for (const std::string& group : command.option_groups()) {
    if (group != kPlainGroup) text += format_text("| **{}** | |\n", group);
    for (const OptionDescription& option : command.options) {
      if (option.group != group) continue;
      text += format_text("| {} | {} |\n", option_cell(option), cell(option.meaning));
    }
  }
  return text + "\n" + examples(command);
}

}  // namespace

std::string reference_page(const std::vector<CommandDescription>& commands) {
  std::string text(kPageHead);
  for (const CommandDescription& command : commands) {
    text += format_text("| [{0}](#hvdrun-{0}) | {1} |\n", command.name, command.summary);
  }
  for (const CommandDescription& command : commands) text += command_section(command);
  return text;
}

}  // namespace hvd
