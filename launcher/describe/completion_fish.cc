// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"
#include "launcher/console/words.h"
#include "launcher/describe/completion.h"

namespace hvd {
namespace {

constexpr std::string_view kHead =
    R"hvd~(# fish completion of hvdrun(1), printed by `hvdrun completion fish`.

# The words before the cursor that are hvdrun's own, then a line "PROGRAM" and those that are the
# program's, where one has begun.
function __hvdrun_split
    set -l words (commandline -opc)
    set -l command run
    set -l next 2
    if set -q words[2]; and contains -- $words[2] @COMMANDS@
        set command $words[2]
        set next 3
    end
    echo $command
    set -l has_program (contains -- $command @WITH_PROGRAM@; and echo yes; or echo no)
    while test $next -le (count $words)
        set -l word $words[$next]
        if test $has_program = yes
            if test "$word" = --
                echo PROGRAM
                string escape -- $words[(math $next + 1)..]
                return
            end
            if not string match -q -- '-*' $word
                echo PROGRAM
                string escape -- $words[$next..]
                return
            end
        end
        if contains -- $command:$word @VALUED@
            set next (math $next + 1)
        end
        set next (math $next + 1)
    end
end

# Succeeds where the cursor is among the words of that command of hvdrun.
function __hvdrun_in
    set -l split (__hvdrun_split)
    test $split[1] = $argv[1]; and not contains -- PROGRAM $split
end

function __hvdrun_in_program
    contains -- PROGRAM (__hvdrun_split)
end

# What the program itself would complete to.
function __hvdrun_program
    set -l split (__hvdrun_split)
    set -l begin (math (contains -i -- PROGRAM $split) + 1)
    complete -C (string join ' ' -- $split[$begin..] (commandline -ct))
end

function __hvdrun_partitions
    set -l words (commandline -opc)
    set -l site
    if set -l at (contains -i -- --site $words)
        set site --site=$words[(math $at + 1)]
    end
    hvdrun completion --values PARTITION $site 2>/dev/null
end

complete -c hvdrun -f
complete -c hvdrun -n __hvdrun_in_program -a '(__hvdrun_program)'
)hvd~";

/// The arguments of `complete` for a value: required, and files only where files are meant.
std::string value_arguments(const Candidates& candidates) {
  using Kind = Candidates::Kind;
  switch (candidates.kind) {
    case Kind::kText:
      return "-x";
    case Kind::kWords:
      return format_text("-x -a '{}'", joined(candidates.words));
    case Kind::kSite:
      return format_text("-x -a '{}(hvdrun completion --values SITE 2>/dev/null)'",
                         candidates.words.empty() ? "" : joined(candidates.words) + " ");
    case Kind::kPartition:
      return "-x -a '(__hvdrun_partitions)'";
    case Kind::kCommand:
      return "-x -a '@COMMANDS@'";
    case Kind::kFile:
      return "-r -F";
    case Kind::kFolder:
      return "-x -a '(__fish_complete_directories)'";
    case Kind::kProgram:
      return "-a '(__fish_complete_command)'";
  }
  return "";
}

std::string flag(const std::string& name) {
  if (name.starts_with("--")) return "-l " + name.substr(2);
  return (name.size() == 2 ? "-s " : "-o ") + name.substr(1);
}

std::string command_lines(const CommandDescription& command) {
  const std::string begin = format_text("complete -c hvdrun -n '__hvdrun_in {}'", command.name);
  std::string text = "\n";
  for (const OptionDescription& option : command.options) {
    if (option.is_operand()) continue;
    text += begin;
    for (const std::string& name : option.names) text += " " + flag(name);
    if (option.takes_value()) text += " " + value_arguments(candidates_of(option));
    text += format_text(" -d '{}'\n", menu_text(option.meaning));
  }
  const Candidates operands = operands_of(command);
  if (operands.kind == Candidates::Kind::kFile) return text + begin + " -F\n";
  if (operands.kind == Candidates::Kind::kText) return text;
  return text + begin + " " + value_arguments(operands) + "\n";
}

}  // namespace

std::string fish_completion(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  std::vector<std::string> with_program;
  std::vector<std::string> valued;
  std::string script(kHead);
  for (const CommandDescription& command : commands) {
    names.push_back(command.name);
    if (command.takes_program()) with_program.push_back(command.name);
    for (const OptionDescription& option : command.options) {
      if (!option.takes_value()) continue;
      for (const std::string& name : option.names) valued.push_back(command.name + ":" + name);
    }
    script += command_lines(command);
    script +=
        format_text("complete -c hvdrun -n 'test (count (commandline -opc)) -eq 1' -a {} -d '{}'\n",
                    command.name, menu_text(command.summary));
  }
  script = replaced(std::move(script), "@COMMANDS@", joined(names));
  script = replaced(std::move(script), "@WITH_PROGRAM@", joined(with_program));
  return replaced(std::move(script), "@VALUED@", joined(valued));
}

}  // namespace hvd
