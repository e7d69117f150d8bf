// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "base/format.h"
#include "launcher/lint/known_variable.h"
#include "launcher/lint/nearest_word.h"
#include "launcher/lint/variable_rules.h"

namespace hvd {
namespace {

std::vector<std::string_view> split_words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  std::size_t begin = text.find_first_not_of(separators);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
  return words;
}

bool is_same_word(std::string_view a, std::string_view b, bool case_sensitive) {
  if (case_sensitive) return a == b;
  const auto same = [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool is_word_of(std::string_view word, const std::vector<std::string_view>& words,
                bool case_sensitive) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view one) { return is_same_word(word, one, case_sensitive); });
}

/// What the readers take; 0x... is for those alone that use the default where a number is wrong.
std::optional<long long> whole_number(std::string_view text, bool takes_hexadecimal = true) {
  long long number = 0;
  int base = 10;
  std::string_view digits = text;
  if (takes_hexadecimal && (digits.starts_with("0x") || digits.starts_with("0X"))) {
    base = 16;
    digits.remove_prefix(2);
  }
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::string alternatives(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

Finding wrong_value(const SetVariable& variable, const KnownVariable& known) {
  return {.rule = "wrong-value",
          .severity = Severity::kError,
          .line = variable.line,
          .variable = variable.name,
          .source = source_of(known)};
}

std::optional<Edit> value_edit(const SetVariable& variable, std::string text) {
  if (!variable.value_at) return std::nullopt;
  return Edit{variable.value_at->begin, variable.value_at->end, std::move(text)};
}

/// `word` of the value is none of `words`: what was meant, if that can be told.
Finding wrong_word(const SetVariable& variable, const KnownVariable& known, std::string_view word,
                   const std::vector<std::string_view>& words) {
  Finding finding = wrong_value(variable, known);
  std::string upper(word);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  std::string_view meant = nearest_word(upper, words, 1);
  if (meant.empty()) meant = nearest_word(word, words, 1);
  if (known.case_sensitive && is_word_of(word, words, false)) {
    finding.rule = "wrong-case";
    finding.why = format_text("letters count here, so '{}' is none of {}{}{}", word,
                              alternatives(words), known.note.empty() ? "" : "; ", known.note);
  } else {
    finding.why = format_text("'{}' is none of {}{}{}", word, alternatives(words),
                              known.note.empty() ? "" : "; ", known.note);
  }
  if (meant.empty()) {
    finding.fix = format_text("write one of {}", alternatives(words));
    return finding;
  }
  finding.fix = format_text("write {}", meant);
  if (word == *variable.value) finding.edit = value_edit(variable, std::string(meant));
  return finding;
}

bool has_end(const KnownVariable& known) {
  return known.highest != std::numeric_limits<long long>::max();
}

std::string range_of(const KnownVariable& known) {
  return has_end(known) ? format_text("from {} to {}", known.lowest, known.highest)
                        : format_text("from {} on", known.lowest);
}

bool is_ours(const KnownVariable& known) { return known.name.starts_with("HVD_"); }

/// What a wrong number leads to.
std::string outcome_of(const KnownVariable& known) {
  if (!known.fails_start && is_ours(known)) return std::string(known.note);
  if (!known.fails_start) return "the default is used instead";
  return format_text("hvd.init() fails on every rank{}{}", known.note.empty() ? "" : "; ",
                     known.note);
}

Finding no_number(const SetVariable& variable, const KnownVariable& known) {
  Finding finding = wrong_value(variable, known);
  finding.why = format_text("'{}' is not a whole number; {}", *variable.value, outcome_of(known));
  finding.fix = "write a whole number";
  if (known.fails_start) finding.fix += " " + range_of(known) + ", or leave it unset";
  const bool is_yes = is_word_of(*variable.value, {"true", "yes", "on"}, false);
  const bool is_no = is_word_of(*variable.value, {"false", "no", "off"}, false);
  if (known.kind == ValueKind::kSwitch && (is_yes || is_no)) {
    finding.fix = format_text("write {}", is_yes ? 1 : 0);
    finding.edit = value_edit(variable, is_yes ? "1" : "0");
  }
  return finding;
}

std::optional<Finding> check_number(const SetVariable& variable, const KnownVariable& known) {
  const std::optional<long long> number =
      whole_number(*variable.value, !known.fails_start && !is_ours(known));
  if (!number) return no_number(variable, known);
  if (known.lowest == known.highest) return std::nullopt;
  if (*number >= known.lowest && *number <= known.highest) return std::nullopt;
  Finding finding = wrong_value(variable, known);
  finding.severity = known.fails_start ? Severity::kError : Severity::kWarning;
  finding.why = has_end(known)
                    ? format_text("{} is outside {} to {}", *number, known.lowest, known.highest)
                    : format_text("{} is below {}", *number, known.lowest);
  if (known.fails_start || is_ours(known)) finding.why += "; " + outcome_of(known);
  finding.fix = format_text("write a number {}", range_of(known));
  return finding;
}

std::optional<Finding> check_words(const SetVariable& variable, const KnownVariable& known) {
  const std::vector<std::string_view> words = split_words(known.values, " ");
  const bool is_list = known.kind == ValueKind::kList;
  // Ours are read with commas alone; in NCCL's lists a ^ excludes.
  const std::string_view separators = is_ours(known) ? "," : ",;:^ ";
  for (const std::string_view word :
       is_list ? split_words(*variable.value, separators)
               : std::vector<std::string_view>{std::string_view(*variable.value)}) {
    if (is_word_of(word, words, known.case_sensitive)) continue;
    if (known.kind == ValueKind::kLevel && whole_number(word)) continue;
    return wrong_word(variable, known, word, words);
  }
  return std::nullopt;
}

std::optional<Finding> check_flag(const SetVariable& variable, const KnownVariable& known) {
  static const std::vector<std::string_view> words = {"0",    "1",     "on", "off", "yes", "no",
                                                      "true", "false", "y",  "n",   "try"};
  if (is_word_of(*variable.value, words, false)) return std::nullopt;
  return wrong_word(variable, known, *variable.value, words);
}

std::optional<Finding> check_quotes(const SetVariable& variable) {
  const std::string& value = *variable.value;
  if (value.size() < 2 || value.front() != value.back()) return std::nullopt;
  if (value.front() != '"' && value.front() != '\'') return std::nullopt;
  return Finding{
      .rule = "quoted-value",
      .severity = Severity::kError,
      .line = variable.line,
      .variable = variable.name,
      .why = format_text("the value is {} with its quotes: they are part of what is read", value),
      .fix = "write the value without the inner quotes",
      .source = "CSCS container engine page, 2026-06"};
}

std::optional<Finding> check_value(const SetVariable& variable, const KnownVariable& known) {
  if (!variable.value) return std::nullopt;
  if (auto finding = check_quotes(variable)) return finding;
  // Empty is as good as unset for every reader.
  if (variable.value->empty()) return std::nullopt;
  switch (known.kind) {
    case ValueKind::kAny:
      return std::nullopt;
    case ValueKind::kSwitch:
    case ValueKind::kInteger:
      return check_number(variable, known);
    case ValueKind::kFlag:
      return check_flag(variable, known);
    case ValueKind::kOneOf:
    case ValueKind::kLevel:
    case ValueKind::kList:
      return check_words(variable, known);
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> check_variable_values(const std::vector<SetVariable>& variables) {
  std::vector<Finding> findings;
  for (const SetVariable& variable : variables) {
    const KnownVariable* known = find_variable(variable.name);
    if (known == nullptr || !known->removed.empty()) continue;
    if (auto finding = check_value(variable, *known)) findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace hvd
