// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_reach.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace hvd {
namespace {

bool is_conditional(const PythonLine& line) {
  for (const char* word : {"if", "elif", "while", "match", "case"}) {
    if (begins_with(line, word)) return true;
  }
  return false;
}

/// "return", "break" or "continue". What raises or exits ends the whole job.
bool leaves(const PythonLine& line) {
  return begins_with(line, "return") || begins_with(line, "break") || begins_with(line, "continue");
}

/// Where a name is used.
struct UsePlace {
  std::size_t function = kNoLine;  ///< What reaches it, reaches the use.
  Reach reach = Reach::kAll;       ///< Of the use where there is no function.
};

/// Who calls whom. A node is a definition, or all uses of one name: as a method, or plainly.
class CallGraph {
 public:
  CallGraph(const PythonScript& script, const std::vector<BlockPlace>& places,
            const PythonGuards& guards)
      : script_(script), places_(places), guards_(guards), edges_(script.lines.size()) {}

  /// Makes nodes of the names that the file defines.
  void add_definitions() {
    for (std::size_t i = 0; i < script_.lines.size(); ++i) {
      const PythonLine& line = script_.lines[i];
      const std::string_view name = defined_name(line);
      if (name.empty()) continue;
      definitions_.push_back(i);
      const std::size_t header = places_[i].header;
      const bool is_method = begins_with(line, "def") && header != kNoLine &&
                             begins_with(script_.lines[header], "class");
      const std::size_t node = node_of(name, is_method);
      edges_[node].push_back(i);
      node_by_definition_[i] = node;
    }
  }

  /// Enters each use of these names; `place` gives the UsePlace of a token.
  template <typename Place>
  void add_uses(Place place) {
    for (std::size_t i = 0; i < script_.lines.size(); ++i) {
      const PythonLine& line = script_.lines[i];
      if (begins_with(line, "import") || begins_with(line, "from")) continue;
      for (std::size_t at = 0; at < line.tokens.size(); ++at) {
        const std::size_t node = node_of_use(line, at);
        if (node == kNoLine || is_within(i, node)) continue;
        is_used_.insert(node);
        if (begins_with(line, "class")) {
          edges_[i].push_back(node);  // a base class is what is used of the one derived from it
          continue;
        }
        const UsePlace use = place(i, at);
        if (use.function != kNoLine) {
          edges_[use.function].push_back(node);
        } else {
          (use.reach == Reach::kAll ? all_ : some_).push_back(node);
        }
      }
    }
    join_methods();
  }

  /// The reach of each definition, by its line.
  std::vector<Reach> reaches() {
    std::vector<bool> is_fixed(edges_.size(), false);
    for (const std::size_t definition : definitions_) {
      if (!guards_.is_for_one_rank(definition)) continue;
      is_fixed[definition] = true;
      some_.push_back(definition);
    }
    const std::vector<bool> all = spread(all_, is_fixed);
    const std::vector<bool> some = spread(some_, std::vector<bool>(edges_.size(), false));
    std::vector<std::size_t> unknown_roots;
    for (const std::size_t definition : definitions_) {
      if (!all[definition] && !some[definition]) unknown_roots.push_back(definition);
    }
    const std::vector<bool> unknown = spread(unknown_roots, is_fixed);
    std::vector<Reach> reaches(script_.lines.size(), Reach::kUnknown);
    for (const std::size_t one : definitions_) {
      if (all[one]) reaches[one] = Reach::kAll;
      if (!all[one] && some[one] && !unknown[one]) reaches[one] = Reach::kSome;
    }
    return reaches;
  }

 private:
  std::size_t node_of(std::string_view name, bool is_method) {
    const auto [found, is_new] = nodes_.try_emplace({name, is_method}, edges_.size());
    if (is_new) edges_.emplace_back();
    return found->second;
  }

  /// The node of what the token at `at` names; kNoLine: nothing of this file.
  std::size_t node_of_use(const PythonLine& line, std::size_t at) const {
    if (!is_name(line.tokens[at])) return kNoLine;
    const bool is_member = at > 0 && is_operator(line.tokens[at - 1], ".");
    const auto found = nodes_.find({line.tokens[at].text, is_member});
    if (found == nodes_.end()) return kNoLine;
    const bool is_of_module =
        is_member && at > 1 && script_.imports.count(line.tokens[at - 2].text) != 0;
    const bool is_definition =
        at > 0 && (line.tokens[at - 1].text == "def" || line.tokens[at - 1].text == "class");
    return is_of_module || is_definition ? kNoLine : found->second;
  }

  /// Whether a line is in a definition of that name, which does not call itself first.
  bool is_within(std::size_t line_index, std::size_t node) const {
    std::size_t at = places_[line_index].function;
    for (; at != kNoLine; at = places_[at].function) {
      if (node_by_definition_.at(at) == node) return true;
    }
    return false;
  }

  /// A method that the file calls nowhere is called by whoever has an object of its class.
  void join_methods() {
    for (const std::size_t definition : definitions_) {
      const std::size_t header = places_[definition].header;
      if (header == kNoLine || !begins_with(script_.lines[header], "class")) continue;
      if (is_used_.count(node_by_definition_[definition]) != 0) continue;
      edges_[header].push_back(definition);
    }
  }

  /// The nodes that can be reached from `roots` without going into those of `barred`.
  std::vector<bool> spread(std::vector<std::size_t> roots, const std::vector<bool>& barred) const {
    std::vector<bool> is_reached(edges_.size(), false);
    while (!roots.empty()) {
      const std::size_t node = roots.back();
      roots.pop_back();
      if (is_reached[node] || barred[node]) continue;
      is_reached[node] = true;
      for (const std::size_t next : edges_[node]) {
        if (!is_reached[next]) roots.push_back(next);
      }
    }
    return is_reached;
  }

  const PythonScript& script_;
  const std::vector<BlockPlace>& places_;
  const PythonGuards& guards_;
  std::vector<std::vector<std::size_t>> edges_;  ///< Definitions by their lines, then names.
  std::map<std::pair<std::string_view, bool>, std::size_t> nodes_;
  std::map<std::size_t, std::size_t> node_by_definition_;
  std::set<std::size_t> is_used_;
  std::vector<std::size_t> definitions_;
  std::vector<std::size_t> all_;
  std::vector<std::size_t> some_;
};

}  // namespace

PythonReach::PythonReach(const PythonScript& script, const std::vector<BlockPlace>& places,
                         const PythonGuards& guards)
    : guards_(guards),
      places_(places),
      asks_(script.lines.size(), false),
      is_guarded_(script.lines.size(), false) {
  read_conditions(script);
  read_places(script);
  CallGraph graph(script, places, guards);
  graph.add_definitions();
  graph.add_uses([&](std::size_t line_index, std::size_t token) {
    return is_guarded(line_index, token) ? UsePlace{kNoLine, Reach::kSome}
                                         : UsePlace{places_[line_index].function, Reach::kAll};
  });
  of_definition_ = graph.reaches();
}

/// An "elif" or "else" asks for the rank where what goes before it does.
void PythonReach::read_conditions(const PythonScript& script) {
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const PythonLine& line = script.lines[i];
    const bool goes_on = begins_with(line, "elif") || begins_with(line, "else");
    if (!is_conditional(line) && !goes_on) continue;
    asks_[i] = is_conditional(line) && guards_.asks_for_rank(i, {1, colon_of(line)});
    const std::size_t previous = places_[i].previous;
    if (goes_on && previous != kNoLine && asks_[previous]) asks_[i] = true;
  }
}

/// "if rank() != 0: return" guards what follows in its block, as a header guards its own block.
void PythonReach::read_places(const PythonScript& script) {
  std::vector<bool> lets_leave(script.lines.size(), false);  // a header by which some ranks leave
  std::vector<bool> is_left(script.lines.size(), false);     // a line after such a header
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const PythonLine& line = script.lines[i];
    const auto [header, previous, function] = places_[i];
    if (previous != kNoLine) is_left[i] = is_left[previous] || lets_leave[previous];
    is_guarded_[i] = is_left[i];
    if (header == kNoLine || header == function) continue;
    if (asks_[header] || is_guarded_[header]) is_guarded_[i] = true;
    if (asks_[header] && !begins_with(script.lines[header], "while") && leaves(line)) {
      lets_leave[header] = true;
    }
  }
}

bool PythonReach::is_guarded(std::size_t line_index, std::size_t token) const {
  if (is_guarded_[line_index]) return true;
  return guards_.is_guarded_in_line(line_index, token);
}

Reach PythonReach::at(std::size_t line_index, std::size_t token) const {
  if (is_guarded(line_index, token)) return Reach::kSome;
  const std::size_t function = places_[line_index].function;
  return function == kNoLine ? Reach::kAll : of_definition_[function];
}

}  // namespace hvd
