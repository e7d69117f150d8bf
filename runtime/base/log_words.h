// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace hvd {

/// Levels that HVD_LOG takes, in the order of LogLevel.
inline constexpr auto kLogLevels =
    std::to_array<std::string_view>({"error", "warning", "info", "debug"});

/// Categories of log lines, all that there are.
inline constexpr auto kLogCategories = std::to_array<std::string_view>(
    {"bootstrap", "buckets", "device", "mpi", "nccl", "select", "staged", "stall", "timeline"});

/// Words of HVD_LOG's text that are neither a level nor a category. Pure; they live in `text`.
std::vector<std::string_view> unknown_log_words(std::string_view text);

/// Warns once per process of such words: a slip would be taken for silence. Thread-safe.
void warn_of_log_words(std::string_view text);

}  // namespace hvd
