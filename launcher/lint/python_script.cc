// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_script.h"

#include <algorithm>
#include <array>

namespace hvd {
namespace {

/// Reads "a.b.c" from `at` on; relative dots stay in front. Gives the token after it.
std::size_t read_dotted(const PythonLine& line, std::size_t at, std::string& path) {
  while (at < line.tokens.size() &&
         (is_operator(line.tokens[at], ".") || is_operator(line.tokens[at], "..."))) {
    path += line.tokens[at++].text;
  }
  while (at < line.tokens.size() && is_name(line.tokens[at]) && line.tokens[at].text != "import") {
    path += line.tokens[at++].text;
    if (at >= line.tokens.size() || !is_operator(line.tokens[at], ".")) break;
    path += line.tokens[at++].text;
  }
  return at;
}

/// "as NAME" at `at`; gives the token after it.
std::size_t read_alias(const PythonLine& line, std::size_t at, std::string& alias) {
  if (at + 1 >= line.tokens.size() || line.tokens[at].text != "as") return at;
  alias = line.tokens[at + 1].text;
  return at + 2;
}

void read_import(const PythonLine& line, PythonScript& script) {
  std::size_t at = 1;
  while (at < line.tokens.size()) {
    std::string path;
    at = read_dotted(line, at, path);
    if (path.empty()) return;
    std::string alias;
    at = read_alias(line, at, alias);
    script.modules.push_back(path);
    const std::string first = path.substr(0, path.find('.'));
    script.imports[alias.empty() ? first : alias] = alias.empty() ? first : path;
    if (at >= line.tokens.size() || !is_operator(line.tokens[at], ",")) return;
    ++at;
  }
}

/// "from PATH import a, b as c"
void read_from(const PythonLine& line, PythonScript& script) {
  std::string path;
  std::size_t at = read_dotted(line, 1, path);
  if (path.empty() || at >= line.tokens.size() || line.tokens[at].text != "import") return;
  script.modules.push_back(path);
  if (!path.ends_with('.')) path += '.';
  for (++at; at < line.tokens.size(); ++at) {
    if (!is_name(line.tokens[at])) continue;
    const std::string name = line.tokens[at].text;
    std::string alias = name;
    at = read_alias(line, at + 1, alias) - 1;
    script.modules.push_back(path + name);
    script.imports[alias] = path + name;
  }
}

PythonArgument argument_of(const PythonLine& line, TokenRange range) {
  PythonArgument argument{"", range};
  const PythonToken& first = line.tokens[range.begin];
  if (is_operator(first, "*") || is_operator(first, "**")) {
    argument.keyword = first.text;
    ++argument.value.begin;
  } else if (is_name(first) && range.begin + 1 < range.end &&
             is_operator(line.tokens[range.begin + 1], "=")) {
    argument.keyword = first.text;
    argument.value.begin += 2;
  }
  return argument;
}

/// The arguments between the brackets at `open` and before `end`.
std::vector<PythonArgument> arguments_of(const PythonLine& line, std::size_t open,
                                         std::size_t end) {
  std::vector<PythonArgument> arguments;
  std::size_t begin = open + 1;
  int depth = 0;
  for (std::size_t at = open; at < end; ++at) {
    const bool is_closed = at + 1 == end;
    depth += step_of_depth(line.tokens[at]);
    const bool ends = is_closed || (depth == 1 && is_operator(line.tokens[at], ","));
    if (!ends) continue;
    if (at > begin) arguments.push_back(argument_of(line, {begin, at}));
    begin = at + 1;
  }
  return arguments;
}

void read_calls(std::size_t line_index, PythonScript& script) {
  const PythonLine& line = script.lines[line_index];
  for (std::size_t at = 0; at < line.tokens.size(); ++at) {
    if (!is_name(line.tokens[at])) continue;
    const std::size_t begin = at;
    while (at + 2 < line.tokens.size() && is_operator(line.tokens[at + 1], ".") &&
           is_name(line.tokens[at + 2])) {
      at += 2;
    }
    if (at + 1 >= line.tokens.size() || !is_operator(line.tokens[at + 1], "(")) continue;
    const std::string_view before = begin > 0 ? line.tokens[begin - 1].text : std::string_view();
    if (before == "def" || before == "class") continue;  // the name that is defined
    PythonCall call{.line = line.tokens[begin].line, .line_index = line_index};
    call.begin = begin;
    call.open = at + 1;
    call.is_named = before != ".";
    const auto found = script.imports.find(line.tokens[begin].text);
    call.is_imported = call.is_named && found != script.imports.end();
    call.path = call.is_imported ? found->second : line.tokens[begin].text;
    for (std::size_t i = begin + 1; i <= at; ++i) call.path += line.tokens[i].text;
    call.name = call.path.substr(call.path.rfind('.') + 1);
    call.arguments = arguments_of(line, at + 1, end_of_brackets(line, at + 1));
    script.calls.push_back(std::move(call));
  }
}

/// Whether a line at the left edge does more than define, import and name values.
bool does_something(const PythonLine& line) {
  constexpr std::array<std::string_view, 9> kQuiet{"def",    "class", "import", "from", "try",
                                                   "except", "else",  "async",  "if"};
  if (line.indent != 0 || !is_name(line.tokens.front())) return false;
  const std::string& first = line.tokens.front().text;
  if (std::find(kQuiet.begin(), kQuiet.end(), first) != kQuiet.end()) return false;
  if (first == "for" || first == "while" || first == "with") return true;
  if (assignment_of(line)) return false;
  return std::any_of(line.tokens.begin(), line.tokens.end(),
                     [](const PythonToken& token) { return is_operator(token, "("); });
}

/// Whether a suite may follow the ":" of a line. "case" may be a name as well.
bool begins_block(const PythonLine& line) {
  constexpr std::array<std::string_view, 11> kHeaders{
      "if", "elif", "else", "for", "with", "try", "except", "finally", "def", "class", "while"};
  if (std::any_of(kHeaders.begin(), kHeaders.end(),
                  [&](std::string_view word) { return begins_with(line, word); })) {
    return true;
  }
  const std::size_t colon = colon_of(line);
  return begins_with(line, "case") && colon > 1 && assignment_of(line).value_or(colon) >= colon;
}

/// Gives each statement a line of its own: what follows the ":" of a header is its block, and what
/// follows a ";" stands below.
std::vector<PythonLine> split_statements(std::vector<PythonLine> lines) {
  std::vector<PythonLine> split;
  for (PythonLine& line : lines) {
    PythonLine part{line.line, line.indent, {}};
    const std::size_t colon = begins_block(line) ? colon_of(line) : line.tokens.size();
    int depth = 0;
    for (std::size_t at = 0; at < line.tokens.size(); ++at) {
      PythonToken& token = line.tokens[at];
      depth += step_of_depth(token);
      const bool is_end = depth == 0 && is_operator(token, ";");
      if (part.tokens.empty()) part.line = token.line;
      if (!is_end) part.tokens.push_back(std::move(token));
      if (!is_end && at != colon) continue;
      const int indent = part.indent + (at == colon ? 1 : 0);
      if (!part.tokens.empty()) split.push_back(std::move(part));
      part = PythonLine{line.line, indent, {}};
    }
    if (!part.tokens.empty()) split.push_back(std::move(part));
  }
  return split;
}

bool asks_for_main(const PythonLine& line) {
  return std::any_of(line.tokens.begin(), line.tokens.end(), [](const PythonToken& token) {
    return token.kind == PythonTokenKind::kString && token.text == "__main__";
  });
}

}  // namespace

bool begins_with(const PythonLine& line, std::string_view word) {
  const PythonToken& first = line.tokens.front();
  if (first.text == "async" && line.tokens.size() > 1) return line.tokens[1].text == word;
  return is_name(first) && first.text == word;
}

std::optional<std::size_t> assignment_of(const PythonLine& line) {
  constexpr std::array<std::string_view, 5> kNone{"if", "elif", "while", "def", "return"};
  for (const std::string_view word : kNone) {
    if (begins_with(line, word)) return std::nullopt;
  }
  int depth = 0;
  for (std::size_t at = 0; at < line.tokens.size(); ++at) {
    depth += step_of_depth(line.tokens[at]);
    if (depth == 0 && at > 0 && is_operator(line.tokens[at], "=")) return at;
  }
  return std::nullopt;
}

PythonScript parse_python(std::string_view text) {
  PythonScript script;
  script.lines = split_statements(read_python(text));
  for (const PythonLine& line : script.lines) {
    if (begins_with(line, "import")) read_import(line, script);
    if (begins_with(line, "from")) read_from(line, script);
    for (const PythonToken& token : line.tokens) {
      if (is_name(token)) script.names.insert(token.text);
    }
    script.is_run = script.is_run || does_something(line) || asks_for_main(line);
  }
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const PythonLine& line = script.lines[i];
    if (!begins_with(line, "import") && !begins_with(line, "from")) read_calls(i, script);
  }
  return script;
}

bool is_of_hvd(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part == "hvd" || part == "horovod") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

bool uses_hvd(const PythonScript& script) {
  return std::any_of(script.modules.begin(), script.modules.end(),
                     [](const std::string& module) { return is_of_hvd(module); });
}

const PythonArgument* find_argument(const PythonCall& call, std::string_view keyword,
                                    std::optional<std::size_t> place) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const PythonArgument& argument = call.arguments[i];
    if (argument.keyword == keyword) return &argument;
    if (argument.keyword.empty() && place == i) return &argument;
  }
  return nullptr;
}

bool hides_arguments(const PythonCall& call) {
  return std::any_of(call.arguments.begin(), call.arguments.end(), [](const PythonArgument& one) {
    return one.keyword == "*" || one.keyword == "**";
  });
}

}  // namespace hvd
