// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/shell_word.h"

namespace hvd {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/=+@%^-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string shell_assignment(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"${" + std::string(name) + "-";
  for (const char c : value) {
    if (std::string_view("\\\"$`}").find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text + "}\"";
}

}  // namespace hvd
