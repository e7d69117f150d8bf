// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/pattern.h"

#include <regex.h>

#include <array>

namespace hvd {

Result<bool> pattern_matches(const std::string& pattern, std::string_view text) {
  regex_t compiled{};
  if (const int failure = regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
      failure != 0) {
    std::array<char, 128> why{};
    regerror(failure, &compiled, why.data(), why.size());
    return error(Code::kInvalidArgument, "the regular expression '{}' is wrong: {}", pattern,
                 why.data());
  }
  const bool matches = regexec(&compiled, std::string(text).c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return matches;
}

}  // namespace hvd
