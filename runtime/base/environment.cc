// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <unistd.h>

#include <charconv>

namespace hvd {

Environment Environment::of_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.set(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

Result<std::optional<long long>> Environment::get_int(std::string_view name, long long lowest,
                                                      long long highest) const {
  const auto text = get(name);
  if (!text || text->empty()) return std::optional<long long>();
  long long value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < lowest || value > highest) {
    return error(Code::kInvalidArgument,
                 "environment variable {}='{}' is not a whole number from {} to {}", name, *text,
                 lowest, highest);
  }
  return std::optional<long long>(value);
}

void Environment::unset(std::string_view name) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) variables_.erase(found);
}

}  // namespace hvd
