// SPDX-License-Identifier: Apache-2.0
#include "base/log_words.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/log.h"

namespace hvd {
namespace {

bool is_known(std::string_view word) {
  return std::find(kLogLevels.begin(), kLogLevels.end(), word) != kLogLevels.end() ||
         std::find(kLogCategories.begin(), kLogCategories.end(), word) != kLogCategories.end();
}

std::string listed() {
  std::string text;
  for (const std::string_view level : kLogLevels)
    text.append(text.empty() ? "" : ", ").append(level);
  for (const std::string_view category : kLogCategories) text.append(", ").append(category);
  return text;
}

}  // namespace

std::vector<std::string_view> unknown_log_words(std::string_view text) {
  std::vector<std::string_view> unknown;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, end);
    if (!word.empty() && !is_known(word)) unknown.push_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return unknown;
}

void warn_of_log_words(std::string_view text) {
  static std::atomic<bool> has_warned{false};
  const std::vector<std::string_view> unknown = unknown_log_words(text);
  if (unknown.empty() || has_warned.exchange(true)) return;
  log(LogLevel::kWarning, "bootstrap", "HVD_LOG={}: '{}' is none of {}", text, unknown.front(),
      listed());
}

}  // namespace hvd
