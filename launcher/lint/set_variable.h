// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// Bytes [begin, end) of a file.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Which programs see a variable that a script sets.
enum class VariableScope {
  kExported,  ///< Those of the lines below.
  kShell,     ///< None: "NAME=VALUE" alone, and no line exports it.
  kCommand,   ///< The one of its own line: "NAME=VALUE PROGRAM", "mpirun -x NAME=VALUE PROGRAM".
};

/// A variable as the environment has it, or as a line of a script sets it.
struct SetVariable {
  std::string name = {};
  std::optional<std::string> value = {};  ///< Absent: only the shell will know it ("$x", "$(x)").
  int line = 0;                           ///< 0: the environment.
  VariableScope scope = VariableScope::kExported;
  std::optional<TextRange> name_at = {};
  std::optional<TextRange> value_at = {};  ///< With its quotes.
  std::optional<TextRange> whole_at = {};  ///< What goes when the variable goes.
};

/// The last one of that name, as a shell sees it; null: none.
const SetVariable* find_set(const std::vector<SetVariable>& variables, std::string_view name);

}  // namespace hvd
