// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/console/words.h"
#include "launcher/describe/completion.h"

namespace hvd {
namespace {

constexpr std::string_view kScript = R"hvd~(# shellcheck shell=bash
# bash completion of hvdrun(1), printed by `hvdrun completion bash`.

_hvdrun_options() {
  case $1 in
@OPTIONS@  esac
}

# What the value of an option ($2) of a command ($1) may be: words, or a kind of name in capitals.
# Fails for an option that takes no value.
_hvdrun_value() {
  case $1:$2 in
@VALUES@    *) return 1 ;;
  esac
}

_hvdrun_operand() {
  case $1 in
@OPERANDS@  esac
}

# _hvdrun_offer WORD SITE WORDS|KIND: fills COMPREPLY.
_hvdrun_offer() {
  local words=$3
  case $3 in
    TEXT) words='' ;;
    SITE*) words="$(hvdrun completion --values SITE 2>/dev/null) ${3#SITE}" ;;
    PARTITION) words=$(hvdrun completion --values PARTITION ${2:+"--site=$2"} 2>/dev/null) ;;
    COMMAND) words='@COMMANDS@' ;;
    DIR)
      compopt -o dirnames
      return
      ;;
    FILE) words='' ;;
  esac
  # The words are ours and hold no spaces.
  # shellcheck disable=SC2207
  COMPREPLY=($(compgen -W "$words" -- "$1"))
  if [ "$3" = FILE ] || { [[ $3 = SITE* ]] && [ ${#COMPREPLY[@]} -eq 0 ]; }; then compopt -o default; fi
}

# _hvdrun_program INDEX: the words from there on are those of another program.
_hvdrun_program() {
  if [ "$1" -lt "$COMP_CWORD" ] && declare -F _command_offset >/dev/null; then
    _command_offset "$1"
    return
  fi
  compopt -o default
  if [ "$1" -eq "$COMP_CWORD" ] && [ -n "${COMP_WORDS[COMP_CWORD]}" ]; then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

_hvdrun() {
  local word=$2 command=run site='' next=1 commands='@COMMANDS@' current value operand
  COMPREPLY=()
  [ "$word" != = ] || word=''
  case " $commands " in
    *" ${COMP_WORDS[1]} "*) [ "$COMP_CWORD" -eq 1 ] || command=${COMP_WORDS[1]} next=2 ;;
  esac
  operand=$(_hvdrun_operand "$command")
  while [ "$next" -lt "$COMP_CWORD" ]; do
    current=${COMP_WORDS[next]}
    next=$((next + 1))
    if [ "$current" = -- ]; then
      _hvdrun_program "$next"
      return
    fi
    if value=$(_hvdrun_value "$command" "$current"); then
      if [ "${COMP_WORDS[next]}" = = ] && [ "$next" -lt "$COMP_CWORD" ]; then next=$((next + 1)); fi
      if [ "$next" -ge "$COMP_CWORD" ]; then
        _hvdrun_offer "$word" "$site" "$value"
        return
      fi
      [ "$current" != --site ] || site=${COMP_WORDS[next]}
      next=$((next + 1))
    elif [[ $current != -* ]] && [ "$operand" = PROGRAM ]; then
      _hvdrun_program $((next - 1))
      return
    fi
  done
  if [[ $word == -* ]]; then
    _hvdrun_offer "$word" '' "$(_hvdrun_options "$command")"
  elif [ "$operand" = PROGRAM ]; then
    _hvdrun_program "$COMP_CWORD"
    [ "$COMP_CWORD" -ne 1 ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$commands" -- "$word")
  else
    _hvdrun_offer "$word" "$site" "$operand"
  fi
}

complete -F _hvdrun hvdrun
)hvd~";

std::string candidates_word(const Candidates& candidates) {
  using Kind = Candidates::Kind;
  switch (candidates.kind) {
    case Kind::kText:
      return "TEXT";
    case Kind::kWords:
      return joined(candidates.words);
    case Kind::kSite:
      return candidates.words.empty() ? "SITE" : "SITE " + joined(candidates.words);
    case Kind::kPartition:
      return "PARTITION";
    case Kind::kCommand:
      return "COMMAND";
    case Kind::kFile:
      return "FILE";
    case Kind::kFolder:
      return "DIR";
    case Kind::kProgram:
      return "PROGRAM";
  }
  return "TEXT";
}

}  // namespace

std::string bash_completion(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  std::string options;
  std::string values;
  std::string operands;
  for (const CommandDescription& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> words;
    for (const OptionDescription& option : command.options) {
      words.insert(words.end(), option.names.begin(), option.names.end());
      if (!option.takes_value() || option.is_operand()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(command.name + ":" + name);
      values += format_text("    {}) echo '{}' ;;\n", joined(patterns, " | "),
                            candidates_word(candidates_of(option)));
    }
    options += format_text("    {}) echo '{}' ;;\n", command.name, joined(words));
    operands +=
        format_text("    {}) echo '{}' ;;\n", command.name, candidates_word(operands_of(command)));
  }
  std::string script = replaced(std::string(kScript), "@COMMANDS@", joined(names));
  script = replaced(std::move(script), "@OPTIONS@", options);
  script = replaced(std::move(script), "@VALUES@", values);
  return replaced(std::move(script), "@OPERANDS@", operands);
}

}  // namespace hvd
