// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "engine/request/pending_request.h"
#include "engine/timeline/timeline.h"

namespace hvd {

/// Stage one: requests of any thread, in the order in which they were submitted.
/// Thread-safe.
class Submission {
 public:
  /// `timeline` outlives the requests.
  explicit Submission(Timeline& timeline) : timeline_(timeline) {}

  /// Requests without a name are named by their place in the program: names come again after so
  /// many of a kind in a process set, and are announced by a bit as others are. Many small numbers
  /// divide it, so that in a program that repeats, a name stands for the same call each time. One
  /// that comes again while it is in flight queues behind itself.
  static constexpr std::uint64_t kPlaces = 120;

  /// Begins the request and queues it.
  void push(const PendingPtr& pending);
  /// Names the request if it has no name, and takes it down in the timeline.
  void begin(PendingRequest& pending);
  /// Queues a request that has begun.
  void queue(const PendingPtr& pending);
  /// Moves all queued requests to the end of `taken`; false when there were none.
  bool drain(std::vector<PendingPtr>& taken);
  /// The others have used the name without this rank: where it was made by us, our count goes on.
  void pass_over(int process_set, std::string_view name);
  bool is_empty() const { return count_.load() == 0; }

 private:
  Timeline& timeline_;
  Mutex mutex_;
  std::vector<PendingPtr> queue_ HVD_GUARDED_BY(mutex_);
  using Counts = std::array<std::uint64_t, kKindCount>;
  /// By process set: ranks count the same in the sets that they share.
  std::unordered_map<int, Counts> unnamed_ HVD_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_{0};
};

}  // namespace hvd
