// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/slurm_record.h"

#include <algorithm>
#include <charconv>
#include <climits>

namespace hvd {
namespace {

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

/// True where the text begins as a field of Slurm does, such as "MailUser=me": a word in mixed
/// letters, and no path behind it but where Slurm writes some.
bool is_field(std::string_view text) {
  const std::size_t equals = text.find_first_of("= ");
  if (equals == std::string_view::npos || text[equals] != '=') return false;
  const std::string_view name = text.substr(0, equals);
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_large = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (name.empty() || !is_large(name[0]) || !std::any_of(name.begin(), name.end(), is_small)) {
    return false;
  }
  const bool is_word = std::all_of(name.begin(), name.end(), [&](char c) {
    return is_small(c) || is_large(c) || c == '_' || c == '/';
  });
  const std::string_view value = text.substr(equals + 1, text.find(' ', equals) - equals - 1);
  const bool holds_path = value.find('/') != std::string_view::npos;
  const bool may_hold_path = name.starts_with("Std") || name.starts_with("Tres") ||
                             name == "WorkDir" || name == "Command" || name == "Comment" ||
                             name == "Container";
  return is_word && (!holds_path || may_hold_path);
}

/// True for "me(1000) ..."
bool is_user(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  const std::size_t open = word.rfind('(');
  return word.ends_with(')') && open != std::string_view::npos && open + 2 < word.size() &&
         word.find_first_not_of("0123456789", open + 1) == word.size() - 1;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) { return pieces_of(text, '\n'); }

std::vector<std::string> comma_words(std::string_view list) {
  const std::vector<std::string_view> pieces = pieces_of(list, ',');
  return {pieces.begin(), pieces.end()};
}

std::string record_field(std::string_view line, std::string_view name) {
  const std::string key = std::string(name) + "=";
  std::size_t at = 0;
  while ((at = line.find(key, at)) != std::string_view::npos) {
    if (at == 0 || line[at - 1] == ' ') break;
    ++at;
  }
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  const std::string value(line.substr(0, line.find(' ')));
  const bool says_nothing =
      value == "(null)" || value == "None" || value == "N/A" || value == "Unknown";
  return says_nothing ? "" : value;
}

std::string record_path(std::string_view line, std::string_view name) {
  const std::string key = " " + std::string(name) + "=";
  const std::size_t at = line.rfind(key);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  std::size_t end = line.size();
  for (std::size_t blank = line.find(' '); blank != std::string_view::npos;
       blank = line.find(' ', blank + 1)) {
    if (is_field(line.substr(blank + 1))) {
      end = blank;
      break;
    }
  }
  return std::string(line.substr(0, end));
}

std::string job_fields(std::string_view line) {
  constexpr std::string_view kName = " JobName=";
  // The names of user and group hold no blanks, and are followed by their numbers.
  constexpr std::string_view kUser = " UserId=";
  std::string fields;
  const std::size_t name = line.find(kName);
  if (name != std::string_view::npos) {
    std::size_t user = line.find(kUser, name + kName.size());
    while (user != std::string_view::npos && !is_user(line.substr(user + kUser.size()))) {
      user = line.find(kUser, user + 1);
    }
    if (user != std::string_view::npos) {
      fields = line.substr(0, name);
      line.remove_prefix(user);
    }
  }
  return fields += line.substr(0, line.find(" Command="));
}

std::optional<long long> record_number(std::string_view text) {
  long long value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  if (!is_whole || value < 0) return std::nullopt;
  return value;
}

std::optional<int> record_count(std::string_view text) {
  const std::optional<long long> value = record_number(text);
  if (!value || *value > INT_MAX) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace hvd
