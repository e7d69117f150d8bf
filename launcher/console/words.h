// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// "a b c"
std::string joined(const std::vector<std::string>& words, std::string_view separator = " ");

/// What stands between the separators; nothing for an empty part.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace hvd
