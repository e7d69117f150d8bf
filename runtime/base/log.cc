// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace hvd {
namespace {

struct Filter {
  LogLevel level = LogLevel::kWarning;
  std::string categories;  // ",a,b,"
};

Filter read_filter() {
  Filter filter;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): once per process, and nothing here changes it.
  const char* text = std::getenv("HVD_LOG");
  if (text == nullptr) return filter;
  filter.categories = ",";
  std::string_view rest(text);
  while (!rest.empty()) {
    const auto end = rest.find(',');
    const auto word = rest.substr(0, end);
    if (word == "error") {
      filter.level = LogLevel::kError;
    } else if (word == "warning") {
      filter.level = LogLevel::kWarning;
    } else if (word == "info") {
      filter.level = LogLevel::kInfo;
    } else if (word == "debug") {
      filter.level = LogLevel::kDebug;
    } else {
      filter.categories.append(word).append(",");
    }
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return filter;
}

const Filter& filter() {
  static const Filter& instance = *new Filter(read_filter());  // leaked: usable during exit
  return instance;
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "?";
}

}  // namespace

bool log_enabled(LogLevel level, std::string_view category) {
  if (level <= filter().level) return true;
  return filter().categories.find(format_text(",{},", category)) != std::string::npos;
}

void log_write(LogLevel level, std::string_view category, std::string_view text) {
  const std::string line = format_text("hvd {} {}: {}\n", level_name(level), category, text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hvd
