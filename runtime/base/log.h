// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/format.h"

namespace hvd {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

/// True when HVD_LOG (a level: error, warning, info, debug; or categories: `select,bootstrap`;
/// comma separated, default warning) asks for lines of this level and category. Thread-safe.
bool log_enabled(LogLevel level, std::string_view category);

/// Writes "hvd level category: text" to standard error in one write. Thread-safe.
void log_write(LogLevel level, std::string_view category, std::string_view text);

template <typename... Args>
void log(LogLevel level, std::string_view category, fmt::format_string<Args...> text,
         Args&&... args) {
  if (!log_enabled(level, category)) return;
  log_write(level, category, format_erased(text, fmt::make_format_args(args...)));
}

}  // namespace hvd
