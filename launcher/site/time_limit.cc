// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/time_limit.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace hvd {
namespace {

constexpr long kLargest = 1'000'000;

std::optional<long> number(std::string_view text) {
  long value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  if (text.empty() || !whole || value < 0 || value > kLargest) return std::nullopt;
  return value;
}

std::optional<std::vector<long>> numbers(std::string_view text) {
  std::vector<long> values;
  while (true) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::optional<long> value = number(text.substr(0, colon));
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (colon == text.size()) return values;
    text.remove_prefix(colon + 1);
  }
}

/// Seconds of fields that start with hours (`with_days`) or, when fewer than three, with minutes.
long seconds_of(std::vector<long> fields, bool with_days) {
  if (!with_days && fields.size() < 3) fields.insert(fields.begin(), 0);
  fields.resize(3, 0);
  return fields[0] * 3600 + fields[1] * 60 + fields[2];
}

}  // namespace

Result<std::chrono::seconds> parse_time_limit(const std::string& text) {
  const std::size_t dash = text.find('-');
  const bool with_days = dash != std::string::npos;
  const auto days = with_days ? number(std::string_view(text).substr(0, dash)) : 0;
  const auto fields = numbers(std::string_view(text).substr(with_days ? dash + 1 : 0));
  if (!days || !fields || fields->size() > 3) {
    return error(Code::kInvalidArgument,
                 "'{}' is not a time limit: type minutes, HH:MM:SS or DAYS-HH:MM:SS", text);
  }
  return std::chrono::seconds(*days * 86400 + seconds_of(*fields, with_days));
}

std::string time_limit_text(std::chrono::seconds time) {
  const long long all = time.count();
  const std::string days = all < 86400 ? "" : format_text("{}-", all / 86400);
  return days + format_text("{:02}:{:02}:{:02}", all / 3600 % 24, all / 60 % 60, all % 60);
}

}  // namespace hvd
