// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace hvd {

/// Whether `text` holds a match of `pattern`, a POSIX extended regular expression (of a site file).
Result<bool> pattern_matches(const std::string& pattern, std::string_view text);

}  // namespace hvd
