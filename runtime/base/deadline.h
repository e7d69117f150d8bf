// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace hvd {

using Clock = std::chrono::steady_clock;

/// The moment at which a wait gives up; no limit only as an explicit kForever.
/// Immutable after construction.
class Deadline {
 public:
  static Deadline after(std::chrono::nanoseconds duration) {
    return Deadline(Clock::now() + duration);
  }
  static constexpr Deadline forever() { return Deadline(Clock::time_point::max()); }
  static Deadline at(Clock::time_point time) { return Deadline(time); }

  bool is_forever() const { return time_ == Clock::time_point::max(); }
  bool has_passed() const { return !is_forever() && Clock::now() >= time_; }
  Clock::time_point time() const { return time_; }

  /// Milliseconds left, rounded up, as poll(2) and epoll_wait(2) take them: -1 for no limit.
  int poll_timeout_ms() const {
    if (is_forever()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000'000));
  }

  Deadline earlier(Deadline other) const { return time_ < other.time_ ? *this : other; }

 private:
  constexpr explicit Deadline(Clock::time_point time) : time_(time) {}
  Clock::time_point time_;
};

inline constexpr Deadline kForever = Deadline::forever();

}  // namespace hvd
