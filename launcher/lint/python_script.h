// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/python_tokens.h"

namespace hvd {

/// Tokens [begin, end) of a logical line.
struct TokenRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// One argument of a call.
struct PythonArgument {
  std::string keyword;  ///< Empty: by its place; "*" and "**" for what is unpacked.
  TokenRange value;
};

/// One call, as far as its text says who is called.
struct PythonCall {
  std::string path = {};  ///< With what imports say: "hvd.torch.rank", "torch.save", "model.save".
  std::string name = {};  ///< The last part of it.
  bool is_named = true;   ///< A name begins the path, and not another call: "f().save()".
  bool is_imported = false;  ///< An import says what that name is.
  int line = 0;
  std::size_t line_index = 0;  ///< Of PythonScript::lines.
  std::size_t begin = 0;       ///< The token that begins the path.
  std::size_t open = 0;        ///< The token "(".
  std::vector<PythonArgument> arguments = {};
};

/// A Python program as its text shows it: nothing is run, no type is known.
struct PythonScript {
  std::vector<PythonLine> lines;  ///< One statement each; a suite on its header's line is a block.
  std::vector<PythonCall> calls;
  std::map<std::string, std::string, std::less<>> imports;  ///< Name here to dotted path.
  std::vector<std::string> modules;  ///< Dotted paths that imports name; "." first: relative.
  std::set<std::string, std::less<>> names;  ///< Each name in it.
  bool is_run = false;  ///< It does something by itself; else it defines what others call.
};

PythonScript parse_python(std::string_view text);

/// Whether a dotted path is libhvd's or Horovod's: one of its parts is "hvd" or "horovod".
bool is_of_hvd(std::string_view path);

/// Whether the program imports either.
bool uses_hvd(const PythonScript& script);

/// The argument of that keyword, or of that place (from 0); null: it is not there.
const PythonArgument* find_argument(const PythonCall& call, std::string_view keyword,
                                    std::optional<std::size_t> place = std::nullopt);

/// Whether an argument with * or ** hides others.
bool hides_arguments(const PythonCall& call);

/// The first "=" of an assignment; absent: the line is none.
std::optional<std::size_t> assignment_of(const PythonLine& line);

/// Whether the line's first word is `word`.
bool begins_with(const PythonLine& line, std::string_view word);

}  // namespace hvd
