// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/version.h"

#include <charconv>
#include <system_error>

namespace hvd {
namespace {

/// The next number of a version, cut off it with its dot; absent: no number.
std::optional<int> next_number(std::string_view& version) {
  if (version.empty()) return 0;
  int number = 0;
  const char* end = version.data() + version.size();
  const auto parsed = std::from_chars(version.data(), end, number);
  if (parsed.ec != std::errc() || number < 0) return std::nullopt;
  if (parsed.ptr != end && *parsed.ptr != '.') return std::nullopt;
  version.remove_prefix(static_cast<std::size_t>(parsed.ptr - version.data()));
  if (!version.empty()) version.remove_prefix(1);
  return number;
}

}  // namespace

std::optional<int> compare_versions(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return std::nullopt;
  int order = 0;
  while (!a.empty() || !b.empty()) {
    const std::optional<int> left = next_number(a);
    const std::optional<int> right = next_number(b);
    if (!left || !right) return std::nullopt;
    if (order == 0) order = *left < *right ? -1 : static_cast<int>(*left > *right);
  }
  return order;
}

}  // namespace hvd
