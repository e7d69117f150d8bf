// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/unknown_word.h"

#include <algorithm>

#include "launcher/options/foreign_option.h"

namespace hvd {
namespace {

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// Numbers are named by one capital in help: N, S.
bool takes_number(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return takes_value(option) && (name == "N" || name.starts_with("N:") || name.starts_with("S:"));
}

bool may_begin_number(char letter) {
  return (letter >= '0' && letter <= '9') || letter == '-' || letter == '+' || letter == '.';
}

/// What a word says to the parser.
enum class WordKind {
  kUnknown,
  kFlag,           ///< Options that are whole in this word.
  kTakesNextWord,  ///< An option whose value is the next word.
  kHelp,
};

WordKind read_long(const CLI::App& app, const std::string& word) {
  const std::size_t equals = word.find('=');
  const CLI::Option* option = app.get_option_no_throw(word.substr(0, equals));
  if (option == nullptr) return WordKind::kUnknown;
  if (option == app.get_help_ptr()) return WordKind::kHelp;
  const bool is_whole = equals != std::string::npos || !takes_value(*option);
  return is_whole ? WordKind::kFlag : WordKind::kTakesNextWord;
}

/// "-v", "-vV", "-n4", "-vn" (and the next word).
WordKind read_letters(const CLI::App& app, const std::string& word, std::string_view command) {
  if (word == "-h") return WordKind::kHelp;
  const std::string name = word.substr(1, word.find('=') - 1);
  if (name.size() > 1 && app.get_option_no_throw("--" + name) != nullptr) {
    return WordKind::kUnknown;  // "-partition" is not -p with the value "artition"
  }
  if (name.size() > 1 && !foreign_remedy(word, command).empty()) return WordKind::kUnknown;
  for (std::size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* option = app.get_option_no_throw(std::string("-") + word[i]);
    if (option == nullptr || option == app.get_help_ptr()) return WordKind::kUnknown;
    if (!takes_value(*option)) continue;
    if (i + 1 == word.size()) return WordKind::kTakesNextWord;
    if (word[i + 1] == '=') return WordKind::kUnknown;
    if (takes_number(*option) && !may_begin_number(word[i + 1])) return WordKind::kUnknown;
    return WordKind::kFlag;
  }
  return WordKind::kFlag;
}

}  // namespace

std::optional<UnknownWord> unknown_word(const CLI::App& app,
                                        const std::vector<std::string>& arguments,
                                        std::string_view command) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") break;
    if (!word.starts_with('-') || word.size() == 1) {
      if (app.get_prefix_command()) break;
      continue;
    }
    const WordKind kind =
        word.starts_with("--") ? read_long(app, word) : read_letters(app, word, command);
    if (kind == WordKind::kHelp) break;
    if (kind == WordKind::kTakesNextWord) ++i;
    if (kind == WordKind::kUnknown) {
      return UnknownWord{word, i + 1 < arguments.size() ? arguments[i + 1] : ""};
    }
  }
  return std::nullopt;
}

std::string right_spelling(const CLI::App& app, const UnknownWord& unknown) {
  const std::size_t equals = std::min(unknown.word.find('='), unknown.word.size());
  const std::string typed = unknown.word.substr(0, equals);
  if (typed.starts_with("--")) return "";
  const bool is_letter = typed.size() == 2;
  const std::string name = is_letter || typed == "-np" ? typed : "-" + typed;
  const CLI::Option* option = app.get_option_no_throw(typed == "-np" ? "--np" : name);
  if (option == nullptr) return "";
  if (is_letter && option == app.get_help_ptr()) return "";
  if (!takes_value(*option)) return "write " + name;
  const bool has_value = equals < unknown.word.size();
  const std::string value = has_value ? unknown.word.substr(equals + 1) : unknown.next;
  return "write " + name + (value.empty() ? "" : " " + value);
}

}  // namespace hvd
