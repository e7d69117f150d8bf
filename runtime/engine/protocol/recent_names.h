// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace hvd {

/// Tells names that come again from those that come once, in bounded memory: of the last kNames to
/// 2 * kNames names it remembers a hash. One thread at a time.
class RecentNames {
 public:
  static constexpr std::size_t kNames = 8192;

  /// True for a name of the process set that came recently; remembers it.
  bool came_before(int process_set, std::string_view name) {
    // A hash that two names share makes one of them known too early, which does no harm.
    const std::size_t hash =
        std::hash<std::string_view>{}(name) + static_cast<std::size_t>(process_set);
    if (newer_.contains(hash) || older_.contains(hash)) return true;
    if (newer_.size() == kNames) older_ = std::exchange(newer_, {});
    newer_.insert(hash);
    return false;
  }

 private:
  std::unordered_set<std::size_t> newer_;
  std::unordered_set<std::size_t> older_;
};

}  // namespace hvd
