// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_blocks.h"

namespace hvd {

std::vector<BlockPlace> places_of_lines(const PythonScript& script) {
  std::vector<BlockPlace> places(script.lines.size());
  std::vector<std::size_t> open;  // the last line of each block that may go on, outermost first
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const int indent = script.lines[i].indent;
    BlockPlace& place = places[i];
    while (!open.empty() && script.lines[open.back()].indent > indent) open.pop_back();
    if (!open.empty() && script.lines[open.back()].indent == indent) {
      place.previous = open.back();
      place.header = places[place.previous].header;
      open.pop_back();
    } else if (!open.empty()) {
      place.header = open.back();
    }
    if (place.header != kNoLine) {
      const bool is_function = begins_with(script.lines[place.header], "def");
      place.function = is_function ? place.header : places[place.header].function;
    }
    open.push_back(i);
  }
  return places;
}

std::string_view defined_name(const PythonLine& line) {
  if (!begins_with(line, "def") && !begins_with(line, "class")) return "";
  const std::size_t at = line.tokens.front().text == "async" ? 2 : 1;
  return at < line.tokens.size() ? std::string_view(line.tokens[at].text) : std::string_view();
}

}  // namespace hvd
