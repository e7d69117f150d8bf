// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_guards.h"

#include <algorithm>
#include <array>

#include "launcher/lint/rank_name.h"
#include "launcher/lint/word_table.h"

namespace hvd {
namespace {

TokenRange whole_of(const PythonLine& line) { return {0, line.tokens.size()}; }

/// Whether the bracket at `at` begins the arguments of a call, or an index; else it groups. What
/// int() and its like are given, they only convert.
bool begins_arguments(const PythonLine& line, std::size_t at) {
  constexpr std::array<std::string_view, 4> kConversions{"int", "bool", "str", "float"};
  constexpr std::array<std::string_view, 9> kWords{"not", "and",  "or",     "if",   "else",
                                                   "in",  "elif", "return", "while"};
  if (!is_operator(line.tokens[at], "(")) return true;  // a list or an index
  if (at == 0) return false;
  const PythonToken& before = line.tokens[at - 1];
  if (is_name(before)) {
    return !is_listed(kConversions, before.text) && !is_listed(kWords, before.text);
  }
  return is_operator(before, ")") || is_operator(before, "]");
}

bool compares(const PythonLine& line, TokenRange range) {
  constexpr std::array<std::string_view, 12> kWords{
      "==", "!=", "<", ">", "<=", ">=", "if", "or", "in", "and", "is", "not"};
  for (std::size_t at = range.begin; at < range.end; ++at) {
    const PythonToken& token = line.tokens[at];
    if (step_of_depth(token) > 0 && begins_arguments(line, at)) {
      at = end_of_brackets(line, at) - 1;
    } else if (token.kind != PythonTokenKind::kString && is_listed(kWords, token.text)) {
      return true;
    }
  }
  return false;
}

/// Without the brackets and conversions around all of it: "rank()" of "(int(rank()))".
TokenRange bare_value(const PythonLine& line, TokenRange value) {
  while (value.begin < value.end) {
    const bool is_named = is_name(line.tokens[value.begin]);
    const std::size_t open = is_named ? value.begin + 1 : value.begin;
    if (open >= value.end || !is_operator(line.tokens[open], "(")) break;
    if (begins_arguments(line, open) || end_of_brackets(line, open) != value.end) break;
    value = {open + 1, value.end - 1};
  }
  return value;
}

/// A dotted name, called without arguments or not called: "hvd.rank()", "self.rank".
bool is_plain_name(const PythonLine& line, TokenRange value) {
  std::size_t end = value.end;
  if (end >= value.begin + 2 && is_operator(line.tokens[end - 1], ")") &&
      is_operator(line.tokens[end - 2], "(")) {
    end -= 2;
  }
  for (std::size_t at = value.begin; at < end; ++at) {
    if (!is_name(line.tokens[at]) && !is_operator(line.tokens[at], ".")) return false;
  }
  return value.begin < end;
}

}  // namespace

PythonGuards::PythonGuards(const PythonScript& script, const std::vector<BlockPlace>& places,
                           const std::vector<PythonBinding>& bindings)
    : script_(script), places_(places) {
  for (const std::string& name : script.names) seed_name(name);
  for (const PythonLine& line : script.lines) {
    for (const PythonToken& token : line.tokens) {
      if (!token.is_formatted) continue;
      for (const std::string& name : names_in_braces(token.text)) seed_name(name);
    }
  }
  learn_names(bindings);
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    holds_.push_back(holds(i, whole_of(script.lines[i]), guards_));
  }
}

void PythonGuards::seed_name(const std::string& name) {
  if (is_rank_name(name)) guards_.names.insert(name);
  if (is_share_name(name)) shares_.names.insert(name);
}

/// Whether that is new.
bool PythonGuards::add(Learned& learned, const PythonBinding& binding) {
  Names& names = binding.function == kNoLine ? learned.names : learned.parameters[binding.function];
  return names.insert(binding.name).second;
}

/// Goes over what names are given until nothing is learned, which takes few rounds.
void PythonGuards::learn_names(const std::vector<PythonBinding>& bindings) {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    bool is_changed = false;
    for (const PythonBinding& one : bindings) {
      if (one.is_whole && tells_rank(one.line_index, one.value)) {
        is_changed |= add(guards_, one);
      }
      if (holds(one.line_index, one.value, shares_)) is_changed |= add(shares_, one);
    }
    if (!is_changed) return;
  }
}

bool PythonGuards::knows(const Learned& learned, std::size_t line_index,
                         const std::string& name) const {
  if (learned.names.count(name) != 0) return true;
  if (learned.parameters.empty()) return false;
  for (std::size_t at = places_[line_index].function; at != kNoLine; at = places_[at].function) {
    const auto found = learned.parameters.find(at);
    if (found != learned.parameters.end() && found->second.count(name) != 0) return true;
  }
  return false;
}

/// os.environ["RANK"], os.environ.get("RANK"), os.getenv("RANK"): `at` is the string.
bool PythonGuards::is_env_rank(const PythonLine& line, std::size_t at) const {
  if (at < 2 || line.tokens[at].is_formatted || !is_rank_variable(line.tokens[at].text)) {
    return false;
  }
  const PythonToken& callee = line.tokens[at - 2];
  if (is_operator(line.tokens[at - 1], "[")) return is_name(callee) || is_operator(callee, ")");
  if (!is_operator(line.tokens[at - 1], "(") || !is_name(callee)) return false;
  const auto import = script_.imports.find(callee.text);
  const std::string_view name = import == script_.imports.end() ? callee.text : import->second;
  return name == "get" || name == "pop" || name == "getenv" || name == "os.getenv";
}

/// tf.rank(x), x.shape.rank: the number of dimensions.
bool PythonGuards::is_rank_of_tensor(const PythonLine& line, std::size_t at) const {
  if (at < 2 || line.tokens[at].text != "rank" || !is_operator(line.tokens[at - 1], ".")) {
    return false;
  }
  const std::string& owner = line.tokens[at - 2].text;
  const auto import = script_.imports.find(owner);
  return owner == "shape" || (import != script_.imports.end() && import->second == "tensorflow");
}

bool PythonGuards::holds_token(std::size_t line_index, TokenRange range, std::size_t at,
                               const Learned& learned) const {
  const PythonLine& line = script_.lines[line_index];
  const PythonToken& token = line.tokens[at];
  if (is_name(token)) {
    const bool is_keyword = at + 1 < range.end && is_operator(line.tokens[at + 1], "=");
    if (is_keyword) return false;  // root_rank=0 asks for nothing
    return knows(learned, line_index, token.text) && !is_rank_of_tensor(line, at);
  }
  if (token.kind != PythonTokenKind::kString) return false;
  if (!token.is_formatted) return is_env_rank(line, at);
  const std::vector<std::string> names = names_in_braces(token.text);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return knows(learned, line_index, name); });
}

bool PythonGuards::holds(std::size_t line_index, TokenRange range, const Learned& learned,
                         Where where) const {
  const PythonLine& line = script_.lines[line_index];
  for (std::size_t at = range.begin; at < range.end; ++at) {
    if (where == Where::kOutsideOfCalls && step_of_depth(line.tokens[at]) > 0 &&
        begins_arguments(line, at)) {
      if (at + 1 < range.end && is_env_rank(line, at + 1)) return true;
      at = end_of_brackets(line, at) - 1;
    } else if (holds_token(line_index, range, at, learned)) {
      return true;
    }
  }
  return false;
}

/// Whether a value is the rank, or was made by comparing it. A model on the GPU of its rank is
/// neither, nor what a function makes of the rank.
bool PythonGuards::tells_rank(std::size_t line_index, TokenRange value) const {
  const PythonLine& line = script_.lines[line_index];
  const TokenRange bare = bare_value(line, value);
  if (bare.begin >= bare.end || !holds(line_index, bare, guards_, Where::kOutsideOfCalls)) {
    return false;
  }
  if (compares(line, bare) || is_plain_name(line, bare)) return true;
  // os.environ["RANK"], and nothing around it
  for (std::size_t at = bare.begin; at + 1 < bare.end; ++at) {
    if (step_of_depth(line.tokens[at]) <= 0) continue;
    return is_plain_name(line, {bare.begin, at}) && is_env_rank(line, at + 1) &&
           end_of_brackets(line, at) == bare.end;
  }
  return false;
}

bool PythonGuards::asks_for_rank(std::size_t line_index, TokenRange condition) const {
  return holds(line_index, condition, guards_);
}

bool PythonGuards::is_made_from_rank(std::size_t line_index, TokenRange range) const {
  return holds(line_index, range, shares_);
}

/// One level of brackets: `part` is what stands between two commas, `inner` what the token is in.
bool PythonGuards::is_guarded_in_part(std::size_t line_index, TokenRange part,
                                      TokenRange inner) const {
  const PythonLine& line = script_.lines[line_index];
  std::size_t joined = part.begin;            // after the last "and" or "or" before it
  TokenRange before{part.begin, part.begin};  // the condition whose "else" it stands in
  TokenRange after{part.end, part.end};       // the condition of the "if" after it
  std::size_t last_if = part.end;
  bool is_multiplied = false;
  int depth = 0;
  for (std::size_t at = part.begin; at < part.end; ++at) {
    depth += step_of_depth(line.tokens[at]);
    if (depth != 0 || (at >= inner.begin && at < inner.end)) continue;
    const std::string_view word = line.tokens[at].text;
    if (line.tokens[at].kind == PythonTokenKind::kString) continue;
    const bool is_before = at < inner.begin;
    if (word == "*") is_multiplied = true;
    if (is_before && (word == "and" || word == "or")) joined = at;
    if (is_before && word == "if") last_if = at;
    if (is_before && word == "else" && last_if < at) before = {last_if + 1, at};
    if (!is_before && word == "if" && after.begin == part.end) after = {at + 1, part.end};
    if (!is_before && word == "else" && after.end == part.end) after.end = at;
  }
  if (asks_for_rank(line_index, {part.begin, joined})) return true;
  if (asks_for_rank(line_index, before) || asks_for_rank(line_index, after)) return true;
  if (!is_multiplied) return false;
  // [callback] * (rank() == 0)
  return tells_rank(line_index, {part.begin, inner.begin}) ||
         (compares(line, {inner.end, part.end}) &&
          asks_for_rank(line_index, {inner.end, part.end}));
}

bool PythonGuards::is_guarded_in_line(std::size_t line_index, std::size_t token) const {
  if (!holds_[line_index]) return false;
  const PythonLine& line = script_.lines[line_index];
  std::vector<std::size_t> open;  // the brackets around the token, outermost first
  for (std::size_t at = 0; at < token; ++at) {
    const int step = step_of_depth(line.tokens[at]);
    if (step > 0) open.push_back(at);
    if (step < 0 && !open.empty()) open.pop_back();
  }
  TokenRange inner{token, token + 1};
  for (bool is_outermost = false; !is_outermost;) {
    is_outermost = open.empty();
    TokenRange part = whole_of(line);
    if (!is_outermost) part = {open.back() + 1, end_of_brackets(line, open.back()) - 1};
    int depth = 0;
    for (std::size_t at = part.begin; at < part.end; ++at) {
      if (at >= inner.begin && at < inner.end) continue;
      depth += step_of_depth(line.tokens[at]);
      const bool ends =
          depth == 0 && (is_operator(line.tokens[at], ",") || is_operator(line.tokens[at], ";") ||
                         is_operator(line.tokens[at], ":") || is_operator(line.tokens[at], "="));
      if (!ends) continue;
      if (at < inner.begin) part.begin = at + 1;
      if (at >= inner.end) part.end = at;
    }
    if (is_guarded_in_part(line_index, part, inner)) return true;
    if (is_outermost) break;
    const std::size_t bracket = open.back();
    open.pop_back();
    inner = {bracket, end_of_brackets(line, bracket)};
    while (inner.begin > 0 && (is_name(line.tokens[inner.begin - 1]) ||
                               is_operator(line.tokens[inner.begin - 1], "."))) {
      const std::string& name = line.tokens[inner.begin - 1].text;
      const bool joins = is_operator(line.tokens[inner.begin - 1], ".") ||
                         is_operator(line.tokens[inner.begin], ".") || inner.begin == bracket;
      constexpr std::array<std::string_view, 6> kWords{"and", "or", "if", "else", "not", "in"};
      if (!joins || is_listed(kWords, name)) break;
      if (is_name_for_one_rank(name)) return true;  // run_on_rank_zero(save)
      --inner.begin;
    }
  }
  return false;
}

bool PythonGuards::is_for_one_rank(std::size_t definition) const {
  if (is_name_for_one_rank(defined_name(script_.lines[definition]))) return true;
  for (std::size_t i = definition; i-- > 0;) {
    const PythonLine& line = script_.lines[i];
    if (!is_operator(line.tokens.front(), "@")) return false;
    std::size_t open = 0;
    while (open < line.tokens.size() && step_of_depth(line.tokens[open]) == 0) ++open;
    if (asks_for_rank(i, {1, open})) return true;
    const TokenRange arguments{open, line.tokens.size()};
    if (open < line.tokens.size() && compares(line, {open + 1, line.tokens.size()}) &&
        asks_for_rank(i, arguments)) {
      return true;
    }
  }
  return false;
}

}  // namespace hvd
