// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// `text` as one word of a POSIX shell: as it is where nothing in it is special, else quoted.
std::string shell_word(std::string_view text);

/// The words of a command, each as shell_word gives it.
std::string shell_line(const std::vector<std::string>& words);

/// `NAME="${NAME-value}"`: the value that the variable has, else `value`.
std::string shell_assignment(std::string_view name, std::string_view value);

}  // namespace hvd
