// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace hvd {

/// The growing time between two looks at something that others pay for: `shortest` after a change,
/// half as much again each time nothing changed, up to `longest`.
class Pace {
 public:
  Pace(std::chrono::milliseconds shortest, std::chrono::milliseconds longest)
      : shortest_(shortest), longest_(longest), next_(shortest) {}

  /// How long to wait now.
  std::chrono::milliseconds next() {
    const std::chrono::milliseconds now = next_;
    next_ = std::min(longest_, next_ + next_ / 2);
    return now;
  }
  void restart() { next_ = shortest_; }

 private:
  std::chrono::milliseconds shortest_;
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_;
};

}  // namespace hvd
