// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// One epoll set: the only place where the engine thread sleeps.
/// Thread-safe (the kernel's epoll is).
class Poller {
 public:
  static Result<Poller> create();

  /// Adds `fd`, level-triggered for reading: for bells and pidfds.
  Status add(int fd, std::uint64_t tag);
  /// Adds a non-blocking socket, edge-triggered for reading and writing: it wakes the sleeper when
  /// it changes, and stays quiet while nobody has a use for its bytes yet.
  Status add_edge(int fd, std::uint64_t tag);
  /// Adds another set, which is readable while it holds events.
  Status add(const Poller& inner, std::uint64_t tag) { return add(inner.epoll_.get(), tag); }
  /// Whether a set that was added wakes the sleeper: at once, if it holds events as it begins to.
  void hear(const Poller& inner, std::uint64_t tag, bool is_heard);
  void remove(int fd);

  struct Event {
    std::uint64_t tag = 0;
    bool hung_up = false;  ///< EPOLLHUP, EPOLLERR or EPOLLRDHUP.
  };
  /// Sleeps until something happens or the deadline; returns how many of `events` were filled.
  Result<std::size_t> wait(std::span<Event> events, Deadline deadline);
  /// The same for less than the millisecond that is the finest deadline of wait().
  Result<std::size_t> wait_briefly(std::span<Event> events, std::chrono::nanoseconds duration);

 private:
  explicit Poller(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
};

}  // namespace hvd
