// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/script_body.h"

#include <algorithm>
#include <array>

#include "launcher/run/program_path.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 9> kLaunchers{"srun",   "mpirun",     "mpiexec",
                                                     "hvdrun", "horovodrun", "torchrun",
                                                     "ibrun",  "accelerate", "deepspeed"};

bool is_name_letter(char letter, bool is_first) {
  if (letter == '_' || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z')) {
    return true;
  }
  return !is_first && letter >= '0' && letter <= '9';
}

/// The length of NAME in "NAME=VALUE"; 0: the word is not an assignment.
std::size_t assigned_name(const ShellWord& word) {
  if (word.is_quoted_at_0) return 0;
  std::size_t length = 0;
  while (length < word.text.size() && is_name_letter(word.text[length], length == 0)) ++length;
  return length < word.text.size() && word.text[length] == '=' ? length : 0;
}

/// What is removed with word `index`; absent: it cannot be removed without breaking the command.
std::optional<TextRange> range_of_removal(const ShellCommand& command, std::size_t index,
                                          bool is_only) {
  if (!is_only) {
    // With the blanks up to its neighbour.
    if (index + 1 < command.words.size()) {
      return TextRange{command.words[index].at.begin, command.words[index + 1].at.begin};
    }
    return TextRange{command.words[index - 1].at.end, command.words[index].at.end};
  }
  // An empty "then" or loop is an error of the shell's.
  if (command.is_nested) return std::nullopt;
  if (command.is_alone) return command.line_at;
  return std::nullopt;
}

void add_assignment(SbatchFile& file, const ShellCommand& command, std::size_t index,
                    VariableScope scope, bool is_only) {
  const ShellWord& word = command.words[index];
  const std::size_t length = assigned_name(word);
  SetVariable variable{.name = word.text.substr(0, length), .line = command.line};
  if (!word.is_expanded) variable.value = word.text.substr(length + 1);
  variable.name_at = TextRange{word.at.begin, word.at.begin + length};
  variable.value_at = TextRange{word.at.begin + length + 1, word.at.end};
  variable.whole_at = range_of_removal(command, index, is_only);
  variable.line = line_of(file.text, word.at.begin);
  variable.scope = scope;
  file.variables.push_back(std::move(variable));
}

/// "export NAME": what "NAME=VALUE" set before is seen by programs from here on.
void export_name(SbatchFile& file, const std::string& name) {
  for (SetVariable& variable : file.variables) {
    if (variable.name == name && variable.scope == VariableScope::kShell) {
      variable.scope = VariableScope::kExported;
    }
  }
}

/// export, declare -x, env: the assignments among their words.
void read_exports(SbatchFile& file, const ShellCommand& command, std::size_t first) {
  std::size_t count = 0;
  for (std::size_t i = first; i < command.words.size(); ++i) {
    if (assigned_name(command.words[i]) > 0 || !command.words[i].text.starts_with('-')) ++count;
  }
  const bool is_env = command.words[first - 1].text == "env";
  const VariableScope scope = is_env ? VariableScope::kCommand : VariableScope::kExported;
  for (std::size_t i = first; i < command.words.size(); ++i) {
    if (assigned_name(command.words[i]) > 0) {
      add_assignment(file, command, i, scope, count == 1);
    } else if (!is_env) {
      export_name(file, command.words[i].text);
    }
  }
}

void read_setenv(SbatchFile& file, const ShellCommand& command, std::size_t first) {
  if (command.words.size() != first + 2) return;
  const ShellWord& name = command.words[first];
  const ShellWord& value = command.words[first + 1];
  SetVariable variable{.name = name.text, .line = command.line};
  if (!value.is_expanded) variable.value = value.text;
  variable.name_at = name.at;
  variable.value_at = value.at;
  if (command.is_alone && !command.is_nested) variable.whole_at = command.line_at;
  file.variables.push_back(std::move(variable));
}

void read_module(SbatchFile& file, const ShellCommand& command, std::size_t first) {
  std::size_t at = first;
  const bool is_short = command.words[at].text == "ml";
  ++at;
  ModuleLine line{.line = command.line, .names = {}, .names_at = {}};
  if (at >= command.words.size()) return;
  const std::string& verb = command.words[at].text;
  if (verb == "purge" || verb == "reset") line.purges = true;
  const bool loads = verb == "load" || verb == "add" || verb == "try-load";
  if (!loads && !line.purges && !is_short) return;
  if (loads || line.purges) ++at;
  for (; at < command.words.size(); ++at) {
    const ShellWord& word = command.words[at];
    if (word.text.starts_with('-') || word.is_expanded) continue;
    line.names.push_back(word.text);
    line.names_at.push_back(word.at);
  }
  file.modules.push_back(std::move(line));
}

void add_given(SbatchFile& file, std::string_view assignment, const ShellWord& word) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) return;
  SetVariable variable{.name = std::string(assignment.substr(0, equals)),
                       .line = line_of(file.text, word.at.begin),
                       .scope = VariableScope::kCommand};
  if (!word.is_expanded) variable.value = assignment.substr(equals + 1);
  file.variables.push_back(std::move(variable));
}

/// "srun --export=ALL,NAME=VALUE", and the "-x NAME=VALUE" of mpirun and hvdrun.
void read_given_variables(SbatchFile& file, const LaunchLine& launch) {
  for (std::size_t i = 1; i < launch.words.size(); ++i) {
    const ShellWord& word = launch.words[i];
    if (word.text == "-x" && i + 1 < launch.words.size()) {
      add_given(file, launch.words[i + 1].text, launch.words[i + 1]);
    }
    constexpr std::string_view kExport = "--export=";
    if (launch.program != "srun" || !word.text.starts_with(kExport)) continue;
    std::string_view rest = std::string_view(word.text).substr(kExport.size());
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      add_given(file, rest.substr(0, end), word);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

void read_launch(SbatchFile& file, const ShellCommand& command, std::size_t first) {
  LaunchLine launch{.line = line_of(file.text, command.words[first].at.begin),
                    .program = std::string(program_name(command.words[first].text)),
                    .words = {},
                    .after_program = command.words[first].at.end};
  launch.words.assign(command.words.begin() + static_cast<std::ptrdiff_t>(first),
                      command.words.end());
  read_given_variables(file, launch);
  file.launches.push_back(std::move(launch));
}

void read_command(SbatchFile& file, const ShellCommand& command) {
  std::size_t first = 0;
  while (first < command.words.size() && assigned_name(command.words[first]) > 0) ++first;
  const bool only_assignments = first == command.words.size();
  const VariableScope alone = file.exports_all ? VariableScope::kExported : VariableScope::kShell;
  for (std::size_t i = 0; i < first; ++i) {
    add_assignment(file, command, i, only_assignments ? alone : VariableScope::kCommand,
                   only_assignments && first == 1);
  }
  if (only_assignments) return;
  if (command.words[first].text == "exec" || command.words[first].text == "command") ++first;
  if (first >= command.words.size()) return;
  const std::string& program = command.words[first].text;
  if (program == "export" || program == "declare" || program == "typeset" || program == "env") {
    read_exports(file, command, first + 1);
  } else if (program == "unset") {
    for (std::size_t i = first + 1; i < command.words.size(); ++i) {
      file.unset.push_back({command.line, command.words[i].text});
    }
  } else if (program == "set") {
    const auto is_all = [](const ShellWord& word) {
      return word.text == "-a" || word.text == "allexport";
    };
    file.exports_all =
        file.exports_all || std::any_of(command.words.begin(), command.words.end(), is_all);
  } else if (program == "setenv") {
    read_setenv(file, command, first + 1);
  } else if (program == "module" || program == "ml") {
    read_module(file, command, first);
  } else if (is_launcher(program)) {
    read_launch(file, command, first);
  }
}

}  // namespace

bool is_launcher(std::string_view word) {
  return std::find(kLaunchers.begin(), kLaunchers.end(), program_name(word)) != kLaunchers.end();
}

void read_script_body(SbatchFile& file, std::size_t begin) {
  for (const ShellCommand& command : split_commands(file.text, begin)) {
    if (command.words.empty()) continue;
    file.has_commands = true;
    read_command(file, command);
  }
}

}  // namespace hvd
