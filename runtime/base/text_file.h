// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"

namespace hvd {

/// How long a pipe or terminal may say nothing.
inline constexpr std::chrono::milliseconds kPipePatience = std::chrono::seconds(30);

/// What a file, or a pipe (`<(command)`), holds until its end. kInvalidArgument where that is more
/// than `largest` bytes, kTimeout where a pipe is silent for `patience`, else kSystem.
Result<std::string> read_file(const std::string& path, std::size_t largest,
                              std::chrono::milliseconds patience = kPipePatience);

/// What read_file gives; nothing where that is an error, empty, or larger than 64 MiB.
std::optional<std::string> read_text_file(const std::string& path);

}  // namespace hvd
