// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_guards.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace hvd {
namespace {

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

/// A name that people give to the rank, or to being the first of them.
bool is_rank_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kParts{
      "rank", "is_main", "is_master", "is_root", "is_chief", "main_process", "is_first", "primary"};
  const std::string lower = lowered(name);
  if (lower.find("ranking") != std::string::npos) return false;
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

/// Names for a part of the data among those of all ranks.
bool is_share_name(std::string_view name) {
  return is_rank_name(name) || lowered(name).find("shard") != std::string::npos ||
         lowered(name).find("size") == 0;
}

bool compares(const PythonLine& line, TokenRange range) {
  constexpr std::array<std::string_view, 10> kWords{
      "==", "!=", "<", ">", "<=", ">=", "if", "or", "and", "not"};
  return std::any_of(line.tokens.begin() + static_cast<std::ptrdiff_t>(range.begin),
                     line.tokens.begin() + static_cast<std::ptrdiff_t>(range.end),
                     [&](const PythonToken& token) {
                       return std::find(kWords.begin(), kWords.end(), token.text) != kWords.end();
                     });
}

/// A dotted name, called without arguments or not called: "hvd.rank()", "self.rank".
bool is_plain(const PythonLine& line, TokenRange value) {
  std::size_t end = value.end;
  if (end >= value.begin + 2 && line.tokens[end - 1].text == ")" &&
      line.tokens[end - 2].text == "(") {
    end -= 2;
  }
  return std::all_of(line.tokens.begin() + static_cast<std::ptrdiff_t>(value.begin),
                     line.tokens.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const PythonToken& token) {
                       return token.kind == PythonTokenKind::kName || token.text == ".";
                     });
}

bool leaves(const PythonLine& line) {
  constexpr std::array<std::string_view, 8> kWords{"return", "continue", "break", "raise",
                                                   "exit",   "quit",     "_exit", "abort"};
  return std::any_of(line.tokens.begin(), line.tokens.end(), [&](const PythonToken& token) {
    return token.kind == PythonTokenKind::kName &&
           std::find(kWords.begin(), kWords.end(), token.text) != kWords.end();
  });
}

/// The name behind "def" or "class"; empty: the line is neither.
std::string_view defined_name(const PythonLine& line) {
  if (!begins_with(line, "def") && !begins_with(line, "class")) return "";
  const std::size_t at = line.tokens.front().text == "async" ? 2 : 1;
  return at < line.tokens.size() ? std::string_view(line.tokens[at].text) : std::string_view();
}

TokenRange whole(const PythonLine& line) { return {0, line.tokens.size()}; }

/// The names that an assignment gives a value: "a, self.b = ..." gives one to a and b.
std::vector<std::string> assigned_names(const PythonLine& line, std::size_t equals) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < equals; ++at) {
    const bool is_name = line.tokens[at].kind == PythonTokenKind::kName;
    const bool goes_on = at + 1 < equals && line.tokens[at + 1].text == ".";
    if (line.tokens[at].text == ":") break;  // a type
    if (is_name && !goes_on) names.push_back(line.tokens[at].text);
  }
  return names;
}

}  // namespace

PythonGuards::PythonGuards(const PythonScript& script) : script_(script) { learn_names(); }

bool PythonGuards::holds(const PythonLine& line, TokenRange range, const Names& names) const {
  const bool is_wide = &names == &shares_;
  for (std::size_t at = range.begin; at < range.end; ++at) {
    const PythonToken& token = line.tokens[at];
    if (token.kind == PythonTokenKind::kName) {
      const bool is_keyword = at + 1 < range.end && line.tokens[at + 1].text == "=";
      if (is_keyword) continue;  // root_rank=0 asks for nothing
      if (is_wide ? is_share_name(token.text) : is_rank_name(token.text)) return true;
      if (names.count(token.text) != 0) return true;
    }
    if (token.is_formatted && token.text.find("rank") != std::string::npos) return true;
  }
  return false;
}

/// What a function gives back, its name stands for.
void PythonGuards::learn_function(std::size_t definition) {
  const std::string_view name = defined_name(script_.lines[definition]);
  const std::size_t end = end_of_block(definition);
  for (std::size_t i = definition + 1; i < end; ++i) {
    const PythonLine& line = script_.lines[i];
    if (!begins_with(line, "return")) continue;
    if (tells_rank(line, whole(line))) guards_.emplace(name);
    if (holds(line, whole(line), shares_)) shares_.emplace(name);
  }
}

/// Goes over the assignments until nothing is learned, which takes few rounds.
void PythonGuards::learn_names() {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    const std::size_t known = guards_.size() + shares_.size();
    for (std::size_t i = 0; i < script_.lines.size(); ++i) {
      const PythonLine& line = script_.lines[i];
      if (begins_with(line, "def")) learn_function(i);
      const auto equals = assignment_of(line);
      if (!equals) continue;
      const std::vector<std::string> names = assigned_names(line, *equals);
      const TokenRange value{*equals + 1, line.tokens.size()};
      if (tells_rank(line, value)) guards_.insert(names.begin(), names.end());
      if (holds(line, value, shares_)) shares_.insert(names.begin(), names.end());
    }
    if (guards_.size() + shares_.size() == known) return;
  }
}

/// Whether a value is the rank, or was made by comparing it. A model on the GPU of its rank is
/// neither.
bool PythonGuards::tells_rank(const PythonLine& line, TokenRange value) const {
  if (!holds(line, value, guards_)) return false;
  return compares(line, value) || is_plain(line, value);
}

bool PythonGuards::asks_for_rank(std::size_t line_index, TokenRange range) const {
  return holds(script_.lines[line_index], range, guards_);
}

bool PythonGuards::is_made_from_rank(std::size_t line_index, TokenRange range) const {
  return holds(script_.lines[line_index], range, shares_);
}

bool PythonGuards::line_asks(std::size_t line_index) const {
  return asks_for_rank(line_index, whole(script_.lines[line_index]));
}

/// The line after the block that `header` begins.
std::size_t PythonGuards::end_of_block(std::size_t header) const {
  std::size_t at = header + 1;
  while (at < script_.lines.size() && script_.lines[at].indent > script_.lines[header].indent) ++at;
  return at;
}

/// "if rank() != 0: return", on one line or several.
bool PythonGuards::leaves_early(std::size_t line_index) const {
  if (!begins_with(script_.lines[line_index], "if") || !line_asks(line_index)) return false;
  const std::size_t end = end_of_block(line_index);
  for (std::size_t i = line_index; i < end; ++i) {
    if (leaves(script_.lines[i])) return true;
  }
  return false;
}

bool PythonGuards::is_decorated_for_rank(std::size_t definition) const {
  for (std::size_t i = definition; i-- > 0;) {
    if (script_.lines[i].tokens.front().text != "@") return false;
    if (line_asks(i)) return true;
  }
  return false;
}

Reach PythonGuards::reach(std::size_t line_index) const {
  std::set<std::size_t> visited;
  return reach_within(line_index, visited);
}

Reach PythonGuards::reach_within(std::size_t line_index, std::set<std::size_t>& visited) const {
  if (line_asks(line_index)) return Reach::kSome;
  int indent = script_.lines[line_index].indent;
  bool wants_condition = false;  // of the "if" whose "else" the line stands in
  for (std::size_t i = line_index; i-- > 0;) {
    const PythonLine& line = script_.lines[i];
    if (line.indent == indent && wants_condition) {
      if (line_asks(i)) return Reach::kSome;
      if (begins_with(line, "if")) wants_condition = false;
    }
    if (line.indent == indent && leaves_early(i)) return Reach::kSome;
    if (line.indent >= indent) continue;
    indent = line.indent;
    if (begins_with(line, "def")) return reach_of_function(i, visited);
    if (begins_with(line, "class")) continue;
    if (line_asks(i)) return Reach::kSome;
    wants_condition = begins_with(line, "else") || begins_with(line, "elif");
  }
  return Reach::kAll;
}

Reach PythonGuards::reach_of_function(std::size_t definition,
                                      std::set<std::size_t>& visited) const {
  constexpr std::size_t kMostFunctions = 100;
  if (visited.size() >= kMostFunctions) return Reach::kUnknown;
  if (!visited.insert(definition).second) return Reach::kSome;  // calls itself: others decide
  if (is_decorated_for_rank(definition)) return Reach::kSome;
  const PythonLine& line = script_.lines[definition];
  std::size_t owner = definition;
  while (owner > 0 && script_.lines[owner].indent >= line.indent) --owner;
  const bool is_method = line.indent > 0 && begins_with(script_.lines[owner], "class");
  const Reach own = reach_of_uses(definition, defined_name(line), is_method, visited);
  if (own != Reach::kUnknown || !is_method) return own;
  return reach_of_uses(owner, defined_name(script_.lines[owner]), false, visited);
}

/// By the lines outside of the definition that name it: as a method of something, or plainly.
Reach PythonGuards::reach_of_uses(std::size_t definition, std::string_view name, bool is_method,
                                  std::set<std::size_t>& visited) const {
  Reach worst = Reach::kUnknown;
  const std::size_t end = end_of_block(definition);
  for (std::size_t i = 0; i < script_.lines.size(); ++i) {
    if (i >= definition && i < end) continue;
    const PythonLine& line = script_.lines[i];
    if (begins_with(line, "import") || begins_with(line, "from")) continue;
    for (std::size_t at = 0; at < line.tokens.size(); ++at) {
      if (line.tokens[at].kind != PythonTokenKind::kName || line.tokens[at].text != name) continue;
      const bool is_member = at > 0 && line.tokens[at - 1].text == ".";
      const bool is_of_module =
          is_member && at > 1 && script_.imports.count(line.tokens[at - 2].text) != 0;
      if (is_member != is_method || is_of_module) continue;
      const Reach reach = reach_within(i, visited);
      if (reach == Reach::kAll) return Reach::kAll;
      if (worst == Reach::kUnknown) worst = reach;
    }
  }
  return worst;
}

}  // namespace hvd
