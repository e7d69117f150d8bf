// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace hvd {

/// Formats `args` by `format` (checked at compile time) into a string. Thread-safe.
std::string format_erased(fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format_text(fmt::format_string<Args...> format, Args&&... args) {
  return format_erased(format, fmt::make_format_args(args...));
}

}  // namespace hvd
