// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bootstrap/wiring.h"
#include "transport/poller.h"

namespace hvd {

/// The descriptors that wake the engine's thread: the bell of this rank, the processes of its node,
/// the links of the tree of leaders, and the lanes of the process sets.
/// Links are a set of their own within it: a caller that drives looks at them all the time, and
/// what comes must not wake the thread, which would take a core from whoever computes or drives.
/// Under the progress lock, except for wait() (engine thread) and close_in_child().
class Watch {
 public:
  struct Event {
    enum class Kind { kProcessEnded, kLaneClosed };
    Kind kind = Kind::kProcessEnded;
    int process_set = 0;  ///< kLaneClosed: of the lane.
    std::size_t index =
        0;  ///< The local rank of the process, or the place of the link in its lane.
  };
  /// Room for the events of one wait().
  using Events = std::array<Event, 16>;

  /// The descriptors of `wiring` outlive this object, wherever it is moved.
  static Result<std::unique_ptr<Watch>> open(const Wiring& wiring);

  Status add_lanes(int process_set, std::span<const std::unique_ptr<Link>> lane);
  void remove_lanes(int process_set, std::span<const std::unique_ptr<Link>> lane);
  /// A lane whose end has been seen.
  void remove_lane(const Link& link) { links_.remove(link.fd()); }

  /// Sleeps until something happens or the deadline, and drains the bell. The events that concern
  /// the epoch; the process of one is watched no more.
  Result<std::span<const Event>> wait(Events& events, Deadline deadline);
  /// The same for less than the millisecond that is the finest deadline of wait().
  Result<std::span<const Event>> wait_briefly(Events& events, std::chrono::nanoseconds duration);

  /// From now on a caller looks at the links: the thread does not wake for them.
  void leave_links();
  /// The caller looks at them once more, and then no longer; the events that it has not been told.
  Result<std::span<const Event>> look_at_links(Events& events);
  /// What comes from now on, and what has come since look_at_links(), wakes the thread.
  void hear_links();

  /// In the child of a fork, which may come at any moment: closes the connections of the job.
  void close_in_child() const;

 private:
  Watch(Poller poller, Poller links, Doorbell& bell)
      : poller_(std::move(poller)), links_(std::move(links)), bell_(bell) {}
  Status add_job(const Wiring& wiring);
  void publish();
  /// What `raw` has for the epoch; how much.
  std::size_t translate(std::span<const Poller::Event> raw, std::span<Event> events);
  /// With what the links have, where `raw` says that they have something.
  Result<std::span<const Event>> told(std::span<const Poller::Event> raw, Events& events);
  Result<std::size_t> take_links(std::span<Event> events);

  Poller poller_;
  Poller links_;  ///< Within poller_: the tree's and the lanes'.
  bool has_links_ = false;
  Doorbell& bell_;
  std::vector<int> processes_;             ///< By local rank; -1: without a pidfd.
  std::vector<int> job_;                   ///< Descriptors for the life of the epoch.
  std::map<int, std::vector<int>> lanes_;  ///< By process set.
  /// The descriptors that close_in_child() closes: replaced as a whole.
  std::unique_ptr<const std::vector<int>> list_;
  std::atomic<const std::vector<int>*> published_{nullptr};
};

}  // namespace hvd
