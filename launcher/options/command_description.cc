// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/command_description.h"

#include <algorithm>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::size_t kMeaningColumn = 30;

void add_once(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

std::string options_text(const CommandDescription& command, std::size_t width) {
  std::string text;
  for (const std::string& group : command.option_groups()) {
    text += format_text("\n{}:\n", group);
    for (const OptionDescription& option : command.options) {
      if (option.group != group) continue;
      text += explained_term(spelling(option), option.meaning, kMeaningColumn, width);
    }
  }
  return text;
}

std::string commands_text(const std::vector<CommandDescription>& commands, std::size_t width) {
  std::vector<std::string> groups;
  for (const CommandDescription& command : commands) add_once(groups, command.group);
  std::string text;
  for (const std::string& group : groups) {
    text += format_text("\n{}:\n", group);
    for (const CommandDescription& command : commands) {
      if (command.group != group || command.name == "run") continue;
      text += explained_term("hvdrun " + command.name, command.summary, kMeaningColumn, width);
    }
  }
  return text;
}

std::string examples_text(const std::vector<CommandExample>& examples, std::size_t width) {
  if (examples.empty()) return "";
  std::size_t column = kMeaningColumn;
  for (const CommandExample& example : examples) {
    column = std::max(column, example.line.size() + 4);
  }
  std::string text = "\nExamples:\n";
  for (const CommandExample& example : examples) {
    text += explained_term(std::string(example.line), example.effect, std::min(column, width / 2),
                           width);
  }
  return text;
}

}  // namespace

std::vector<std::string> OptionDescription::choices() const {
  std::vector<std::string> found;
  if (value.find('|') == std::string::npos) return found;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('|', begin), value.size());
    const std::string choice = value.substr(begin, end - begin);
    const auto is_capital = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
    const auto capital = std::find_if(choice.begin(), choice.end(), is_capital);
    if (capital != choice.begin()) found.emplace_back(choice.begin(), capital);
    begin = end + 1;
  }
  return found;
}

std::string CommandDescription::invocation() const {
  return name == "run" ? "hvdrun" : "hvdrun " + name;
}

std::vector<std::string> CommandDescription::option_groups() const {
  std::vector<std::string> groups;
  for (const OptionDescription& option : options) add_once(groups, option.group);
  return groups;
}

std::string spelling(const OptionDescription& option) {
  if (option.is_operand()) return option.value;
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  return option.takes_value() ? text + " " + option.value : text;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    if (text[begin] == ' ' || text[begin] == '\n') {
      ++begin;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back(word);
    } else {
      lines.back().append(" ").append(word);
    }
    begin = end;
  }
  return lines;
}

std::string explained_term(const std::string& term, std::string_view meaning, std::size_t column,
                           std::size_t width) {
  std::string text = "  " + term;
  if (text.size() + 2 > column && !meaning.empty()) text += "\n" + std::string(column, ' ');
  bool is_first = true;
  for (const std::string& line : wrapped(meaning, width > column ? width - column : 1)) {
    if (!is_first) text += "\n" + std::string(column, ' ');
    const std::size_t begun = text.size() - (text.rfind('\n') + 1);
    if (is_first && begun < column) text += std::string(column - begun, ' ');
    text += line;
    is_first = false;
  }
  return text + "\n";
}

std::string help_text(const CommandDescription& command,
                      const std::vector<CommandDescription>& commands, std::size_t width) {
  std::string text = format_text("Usage: {} [OPTIONS]{}{}\n", command.invocation(),
                                 command.operands.empty() ? "" : " ", command.operands);
  if (!commands.empty()) text += "       hvdrun COMMAND [OPTIONS] ...\n";
  for (const std::string& line : wrapped(command.about, width)) text += line + "\n";
  text += examples_text(command.examples, width);
  text += commands_text(commands, width);
  text += options_text(command, width);
  if (!commands.empty()) text += "\n'hvdrun help COMMAND' tells more; so does 'man hvdrun'.\n";
  return text;
}

}  // namespace hvd
