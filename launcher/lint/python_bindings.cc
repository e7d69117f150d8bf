// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_bindings.h"

#include <map>
#include <string_view>

namespace hvd {
namespace {

/// The parts of a range between its outer commas, or between other operators.
std::vector<TokenRange> split_range(const PythonLine& line, TokenRange range,
                                    std::string_view separator) {
  std::vector<TokenRange> parts;
  std::size_t begin = range.begin;
  int depth = 0;
  for (std::size_t at = range.begin; at < range.end; ++at) {
    depth += step_of_depth(line.tokens[at]);
    if (depth != 0 || !is_operator(line.tokens[at], separator)) continue;
    parts.push_back({begin, at});
    begin = at + 1;
  }
  if (begin < range.end) parts.push_back({begin, range.end});
  return parts;
}

/// Without brackets around all of it.
TokenRange unwrapped(const PythonLine& line, TokenRange range) {
  while (range.end >= range.begin + 2 && is_operator(line.tokens[range.begin], "(") &&
         end_of_brackets(line, range.begin) == range.end) {
    range = {range.begin + 1, range.end - 1};
  }
  return range;
}

/// Reads what names are given, line by line.
class BindingReader {
 public:
  BindingReader(const PythonScript& script, const std::vector<BlockPlace>& places)
      : script_(script), places_(places) {}

  std::vector<PythonBinding> read() {
    for (std::size_t i = 0; i < script_.lines.size(); ++i) read_line(i);
    read_calls();
    return std::move(bindings_);
  }

 private:
  void read_line(std::size_t index) {
    const PythonLine& line = script_.lines[index];
    if (begins_with(line, "return")) {
      const std::size_t function = places_[index].function;
      if (function == kNoLine) return;
      add(std::string(defined_name(script_.lines[function])), index, {1, line.tokens.size()});
    } else if (begins_with(line, "for")) {
      read_for(index);
    } else if (begins_with(line, "with")) {
      read_with(index);
    } else if (const auto equals = assignment_of(line)) {
      read_assignment(index, *equals);
    } else {
      read_sum(index);
    }
  }

  void add(std::string name, std::size_t index, TokenRange value, bool is_whole = true,
           std::size_t function = kNoLine) {
    bindings_.push_back({std::move(name), index, value, is_whole, function});
  }

  /// The name that one target ends in: "b" of "self.b", and of "b[i]" as a part.
  void add_target(std::size_t index, TokenRange target, TokenRange value, bool is_whole = true) {
    const PythonLine& line = script_.lines[index];
    std::string name;
    for (std::size_t at = target.begin; at < target.end; ++at) {
      const PythonToken& token = line.tokens[at];
      if (is_operator(token, ":")) break;  // a type
      if (is_operator(token, "[") || is_operator(token, "*")) is_whole = false;
      if (is_operator(token, "[")) break;
      if (is_name(token)) name = token.text;
    }
    if (!name.empty()) add(name, index, value, is_whole);
  }

  /// "a, b = x, y" gives each its own; of "a, b = f()" each gets a part.
  void read_pair(std::size_t index, TokenRange target, TokenRange value) {
    const PythonLine& line = script_.lines[index];
    const std::vector<TokenRange> targets = split_range(line, unwrapped(line, target), ",");
    const std::vector<TokenRange> values = split_range(line, unwrapped(line, value), ",");
    if (targets.size() == 1) return add_target(index, targets.front(), value);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (values.size() == targets.size()) {
        add_target(index, targets[i], values[i]);
      } else {
        add_target(index, targets[i], value, false);
      }
    }
  }

  void read_assignment(std::size_t index, std::size_t equals) {
    const PythonLine& line = script_.lines[index];
    const std::vector<TokenRange> rest = split_range(line, {equals + 1, line.tokens.size()}, "=");
    if (rest.empty()) return;
    read_pair(index, {0, equals}, rest.back());
    for (std::size_t i = 0; i + 1 < rest.size(); ++i) read_pair(index, rest[i], rest.back());
  }

  /// "path += value"
  void read_sum(std::size_t index) {
    const PythonLine& line = script_.lines[index];
    for (std::size_t at = 1; at < line.tokens.size(); ++at) {
      if (!is_operator(line.tokens[at], "+=")) continue;
      return add_target(index, {0, at}, {at + 1, line.tokens.size()}, false);
    }
  }

  void read_for(std::size_t index) {
    const PythonLine& line = script_.lines[index];
    const std::size_t begin = line.tokens.front().text == "async" ? 2 : 1;
    const std::size_t end = colon_of(line);
    std::size_t in = begin;
    while (in < end && line.tokens[in].text != "in") ++in;
    if (in + 1 >= end) return;
    std::vector<TokenRange> targets = split_range(line, unwrapped(line, {begin, in}), ",");
    const bool counts = line.tokens[in + 1].text == "enumerate";
    if (counts && targets.size() > 1) targets.erase(targets.begin());
    for (const TokenRange& target : targets) add_target(index, target, {in + 1, end}, false);
  }

  void read_with(std::size_t index) {
    const PythonLine& line = script_.lines[index];
    const std::size_t begin = line.tokens.front().text == "async" ? 2 : 1;
    for (const TokenRange& part :
         split_range(line, unwrapped(line, {begin, colon_of(line)}), ",")) {
      for (std::size_t at = part.begin; at < part.end; ++at) {
        if (line.tokens[at].text != "as" || !is_name(line.tokens[at])) continue;
        add_target(index, {at + 1, part.end}, {part.begin, at});
        break;
      }
    }
  }

  /// The names of a function's parameters; a method's first one is left out.
  std::vector<std::string> parameters_of(std::size_t definition) const {
    const PythonLine& line = script_.lines[definition];
    std::size_t open = 0;
    while (open < line.tokens.size() && !is_operator(line.tokens[open], "(")) ++open;
    if (open == line.tokens.size()) return {};
    const std::size_t end = end_of_brackets(line, open);
    std::vector<std::string> names;
    for (const TokenRange& part : split_range(line, {open + 1, end - 1}, ",")) {
      const PythonToken& first = line.tokens[part.begin];
      if (is_operator(first, "*") && part.end == part.begin + 1) continue;  // keywords follow
      names.push_back(is_name(first) ? first.text : "");
    }
    if (is_method(definition) && !names.empty()) names.erase(names.begin());
    return names;
  }

  bool is_method(std::size_t definition) const {
    const std::size_t header = places_[definition].header;
    return header != kNoLine && begins_with(script_.lines[header], "class");
  }

  /// By the name that a call uses: a class stands for its __init__.
  std::map<std::string_view, std::vector<std::size_t>> functions_by_name() const {
    std::map<std::string_view, std::vector<std::size_t>> functions;
    for (std::size_t i = 0; i < script_.lines.size(); ++i) {
      if (!begins_with(script_.lines[i], "def")) continue;
      std::string_view name = defined_name(script_.lines[i]);
      if (name == "__init__" && is_method(i)) {
        name = defined_name(script_.lines[places_[i].header]);
      }
      functions[name].push_back(i);
    }
    return functions;
  }

  void read_calls() {
    constexpr std::size_t kMostOfAName = 8;  // more say nothing about who is called
    const auto functions = functions_by_name();
    std::map<std::size_t, std::vector<std::string>> parameters;
    for (const PythonCall& call : script_.calls) {
      const auto found = functions.find(call.name);
      if (found == functions.end() || found->second.size() > kMostOfAName) continue;
      for (const std::size_t definition : found->second) {
        const auto known = parameters.find(definition);
        if (known == parameters.end()) parameters[definition] = parameters_of(definition);
        add_arguments(call, definition, parameters[definition]);
      }
    }
  }

  void add_arguments(const PythonCall& call, std::size_t definition,
                     const std::vector<std::string>& parameters) {
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      const PythonArgument& argument = call.arguments[i];
      if (argument.keyword.starts_with('*')) return;
      if (!argument.keyword.empty()) {
        add(argument.keyword, call.line_index, argument.value, true, definition);
      } else if (i < parameters.size() && !parameters[i].empty()) {
        add(parameters[i], call.line_index, argument.value, true, definition);
      }
    }
  }

  const PythonScript& script_;
  const std::vector<BlockPlace>& places_;
  std::vector<PythonBinding> bindings_;
};

}  // namespace

std::vector<PythonBinding> bindings_of(const PythonScript& script,
                                       const std::vector<BlockPlace>& places) {
  return BindingReader(script, places).read();
}

}  // namespace hvd
