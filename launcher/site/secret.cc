// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/secret.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace hvd {
namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string uppercase(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), upper);
  return result;
}

/// "KEY" is in "API_KEY", not in "KEYBOARD" or "MONKEY".
bool has_word(const std::string& name, std::string_view word) {
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool starts = at == 0 || name[at - 1] == '_';
    if (starts && (end == name.size() || name[end] == '_' || name[end] == 'S')) return true;
  }
  return false;
}

/// The word is anywhere in the name; "TOKENIZERS_PARALLELISM" has no "TOKEN".
bool has_telling_text(const std::string& name, std::string_view text) {
  for (std::size_t at = name.find(text); at != std::string::npos; at = name.find(text, at + 1)) {
    if (name.compare(at, 7, "TOKENIZ") != 0) return true;
  }
  return false;
}

}  // namespace

bool is_secret(const std::string& name, const std::string& value) {
  const std::string known = uppercase(name);
  for (const std::string_view text :
       {"SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "JWT", "COOKIE", "APIKEY"}) {
    if (has_telling_text(known, text)) return true;
  }
  for (const std::string_view word : {"KEY", "PASS", "AUTH", "PAT"}) {
    if (has_word(known, word)) return true;
  }
  // "https://user:password@host"
  const std::size_t scheme = value.find("://");
  if (scheme == std::string::npos) return false;
  const std::size_t at = value.find_first_of("@/ ", scheme + 3);
  return at != std::string::npos && value[at] == '@' && value.find(':', scheme + 3) < at;
}

std::vector<std::string> shown_arguments(std::vector<std::string> arguments) {
  const std::string hidden = "(redacted)";
  bool hides_next = false;
  for (std::string& word : arguments) {
    const bool is_option = word.starts_with("-");
    const bool hides = std::exchange(hides_next, false) && !is_option;
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    name.erase(0, name.find_first_not_of('-'));
    std::replace(name.begin(), name.end(), '-', '_');
    if (hides || (equals == std::string::npos && !is_option && is_secret("", word))) {
      word = hidden;
    } else if (equals != std::string::npos) {
      if (is_secret(name, word.substr(equals + 1)))
        word.replace(equals + 1, std::string::npos, hidden);
    } else if (is_option) {
      hides_next = is_secret(name, "");
    }
  }
  return arguments;
}

}  // namespace hvd
