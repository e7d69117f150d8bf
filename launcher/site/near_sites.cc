// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/near_sites.h"

#include <algorithm>

#include "launcher/options/nearest.h"

namespace hvd {
namespace {

constexpr std::size_t kShortest = 3;  // what is shorter begins too many words

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

bool has_word_that_begins(const std::string& text, const std::string& with) {
  for (std::size_t at = text.find(with); at != std::string::npos; at = text.find(with, at + 1)) {
    if (at == 0 || !is_letter_or_digit(text[at - 1])) return true;
  }
  return false;
}

bool is_near(const SiteEntry& entry, const std::string& typed) {
  std::vector<std::string> names{in_small_letters(entry.id)};
  for (const std::string& alias : entry.aliases) names.push_back(in_small_letters(alias));
  if (!nearest(typed, names).empty()) return true;
  if (typed.size() < kShortest) return false;
  names.push_back(in_small_letters(entry.name));
  return std::any_of(names.begin(), names.end(), [&typed](const std::string& name) {
    return has_word_that_begins(name, typed);
  });
}

}  // namespace

std::vector<std::string> near_sites(const std::vector<SiteEntry>& entries, std::string_view typed) {
  const std::string small = in_small_letters(typed);
  std::vector<std::string> ids;
  for (const SiteEntry& entry : entries) {
    if (entry.problem.empty() && is_near(entry, small)) ids.push_back(entry.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace hvd
