// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/set_variable.h"
#include "launcher/lint/shell_words.h"

namespace hvd {

/// One option of an #SBATCH line.
struct Directive {
  std::string option;                ///< Long name, without dashes; as typed where not known.
  std::string spelled;               ///< "-c", "--cpus-per-task"
  std::optional<std::string> value;  ///< Without quotes.
  int line = 0;
  bool is_known = false;
  TextRange at;        ///< Option and value.
  TextRange value_at;  ///< Empty range where there is no value.
  TextRange gone_at;   ///< What goes when the option goes: its line where it is alone there.
};

/// A line that was meant for sbatch and is not read, or not understood.
struct BrokenDirective {
  int line = 0;
  std::string rule;  ///< "unread-directive" or "bad-directive"
  std::string why;
  std::string fix;
  std::optional<TextRange> mended_at = {};
  std::string mended = {};
};

/// A line that a blank behind its # makes a comment: "# SBATCH --time=1".
struct SwitchedOff {
  int line = 0;
  std::string option;  ///< Long name, without dashes.
};

struct ModuleLine {
  int line = 0;
  std::vector<std::string> names;
  std::vector<TextRange> names_at;
  bool purges = false;
};

/// A name that "unset" takes back.
struct UnsetName {
  int line = 0;
  std::string name;
};

/// A command that starts tasks.
struct LaunchLine {
  int line = 0;
  std::string program;            ///< "srun", "mpirun", "hvdrun" ...
  std::vector<ShellWord> words;   ///< With the program.
  std::size_t after_program = 0;  ///< Byte behind the program's name.
};

/// An sbatch file, read as sbatch and the shell read it.
struct SbatchFile {
  std::string text;
  std::vector<Directive> directives;
  std::vector<BrokenDirective> broken;
  std::vector<SwitchedOff> switched_off;
  std::vector<SetVariable> variables;
  std::vector<UnsetName> unset;
  std::vector<ModuleLine> modules;
  std::vector<LaunchLine> launches;
  bool has_commands = false;
  bool exports_all = false;        ///< "set -a" was read.
  std::size_t directives_end = 0;  ///< Byte where another directive can stand.
};

/// Reads any text; what is wrong with it is in the result.
SbatchFile parse_sbatch_file(std::string text);

/// The last one of that name, which is the one that counts; null: none.
const Directive* find_directive(const SbatchFile& file, std::string_view option);

/// The value of an option of a launch ("--cpus-per-task", "-c"), as "--x=v", "--x v", "-xv" or
/// "-x v"; absent: it is not there. Looked for up to the program that is launched, or "--".
std::optional<std::string> launch_option(const LaunchLine& launch, std::string_view name,
                                         char letter);

/// Where the words of a launch name the program, or "--" before it; their number: nowhere.
std::size_t launched_at(const LaunchLine& launch);

}  // namespace hvd
