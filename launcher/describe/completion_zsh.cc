// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/console/words.h"
#include "launcher/describe/completion.h"

namespace hvd {
namespace {

constexpr std::string_view kZshHead = R"hvd~(#compdef hvdrun
# zsh completion of hvdrun(1), printed by `hvdrun completion zsh`.

_hvdrun_site() {
  local -a names
  names=(${(f)"$(hvdrun completion --values SITE 2>/dev/null)"})
  compadd -a names || _files -g '*.json'
}

_hvdrun_partition() {
  local -a names
  local site=${opt_args[--site]:-}
  names=(${(f)"$(hvdrun completion --values PARTITION ${site:+--site=$site} 2>/dev/null)"})
  compadd -a names
}

_hvdrun_name() {
  local -a commands
  commands=(
)hvd~";

constexpr std::string_view kAfterCommands = R"hvd~(  )
  _describe -t commands 'hvdrun command' commands
}
)hvd~";

constexpr std::string_view kTail = R"hvd~(
_hvdrun() {
  if ((CURRENT > 2)) && (($+functions[_hvdrun_command_${words[2]}])); then
    local command=${words[2]}
    shift words
    ((CURRENT--))
    _hvdrun_command_$command
    return
  fi
  local found=1
  if ((CURRENT == 2)) && [[ ${words[2]} != -* ]]; then
    _hvdrun_name && found=0
  fi
  _hvdrun_command_run && found=0
  return found
}

if [[ $funcstack[1] == _hvdrun ]]; then
  _hvdrun "$@"
else
  compdef _hvdrun hvdrun
fi
)hvd~";

/// What _arguments calls to complete a value.
std::string action(const Candidates& candidates) {
  using Kind = Candidates::Kind;
  switch (candidates.kind) {
    case Kind::kText:
      return " ";
    case Kind::kWords:
      return "(" + replaced(joined(candidates.words), ":", "\\:") + ")";
    case Kind::kSite:
      if (candidates.words.empty()) return "_hvdrun_site";
      return format_text("{{compadd -- {}; _hvdrun_site}}", joined(candidates.words));
    case Kind::kPartition:
      return "_hvdrun_partition";
    case Kind::kCommand:
      return "_hvdrun_name";
    case Kind::kFile:
      return "_files";
    case Kind::kFolder:
      return "_files -/";
    case Kind::kProgram:
      return "_command_names -e";
  }
  return " ";
}

/// One line of _arguments for each name of the option.
std::string specifications(const OptionDescription& option) {
  std::string text;
  const std::string others = option.is_repeatable ? "*" : format_text("({})", joined(option.names));
  for (const std::string& name : option.names) {
    const bool takes_equals = option.takes_value() && name.starts_with("--");
    const std::string value =
        option.takes_value() ? format_text(":value:{}", action(candidates_of(option))) : "";
    text += format_text(" \\\n    '{}{}{}[{}]{}'", others, name, takes_equals ? "=" : "",
                        menu_text(option.meaning), value);
  }
  return text;
}

std::string command_function(const CommandDescription& command) {
  std::string text = format_text("\n_hvdrun_command_{}() {{\n  _arguments -S", command.name);
  for (const OptionDescription& option : command.options) {
    if (!option.is_operand()) text += specifications(option);
  }
  const Candidates operands = operands_of(command);
  if (command.takes_program()) {
    text +=
        format_text(" \\\n    '(-)1:program:{}' \\\n    '*::arguments:_normal'", action(operands));
  } else if (operands.kind != Candidates::Kind::kText) {
    text += format_text(" \\\n    '*:operand:{}'", action(operands));
  }
  return text + "\n}\n";
}

}  // namespace

std::string zsh_completion(const std::vector<CommandDescription>& commands) {
  std::string script(kZshHead);
  for (const CommandDescription& command : commands) {
    script += format_text("    '{}:{}'\n", command.name, menu_text(command.summary));
  }
  script += kAfterCommands;
  for (const CommandDescription& command : commands) script += command_function(command);
  return script.append(kTail);
}

}  // namespace hvd
