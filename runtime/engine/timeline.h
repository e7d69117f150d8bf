// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "engine/request.h"
#include "engine/timeline_event.h"
#include "engine/timeline_options.h"
#include "engine/traced_request.h"

namespace hvd {

/// Takes down what becomes of each request, and writes it to a file; see TimelineText.
///
/// Nobody who takes down waits for the disk: events gather in memory, and a thread, which is there
/// only while the timeline is on, writes them at least each second. Where it falls behind, requests
/// are left out, as a whole each, and counted. Thread-safe.
class Timeline {
 public:
  /// Events that may wait to be written; those of a request that is not left out come on top.
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 16;

  Timeline(int rank, std::string host, std::size_t most_waiting = kMostWaiting)
      : rank_(rank), host_(std::move(host)), most_waiting_(most_waiting) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Begins the file, over what was in it. Ok, and nothing else, on a rank that is to write none.
  /// kSystem: it cannot be opened; kInvalidArgument: no name, or the timeline is on already.
  Status start(const TimelineOptions& options);
  /// Writes the rest and ends the file; off already: ok. kSystem: the file is not whole.
  Status stop();

  /// relaxed: pairs with nothing; who finds it on looks again under the lock.
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

  /// `has_own_row`: the name is not one made by us. Empty hands where the request is left out.
  TracedRequest submitted(const Request& request, std::size_t bytes, bool has_own_row);
  void decided_batch(std::uint64_t number, int process_set, std::size_t requests);

 private:
  friend class TracedRequest;

  /// Sets the time, and adds the event unless `may_be_left_out` and there are too many.
  bool add(TimelineEvent event, bool may_be_left_out) HVD_REQUIRES(mutex_);
  void take_down(TimelineEvent event, bool may_be_left_out);
  Status end() HVD_REQUIRES(control_);
  /// `text` comes first.
  void run_writer(UniqueFd file, const std::string& path, std::string text);
  /// Sleeps, then takes what there is; false after the last.
  bool next(std::vector<TimelineEvent>& taken, std::uint64_t& left_out);
  void give_up(const Status& failure);

  const int rank_;
  const std::string host_;
  const std::size_t most_waiting_;

  Mutex control_;  ///< One start or stop at a time.
  std::string path_ HVD_GUARDED_BY(control_);
  std::thread writer_ HVD_GUARDED_BY(control_);

  Mutex mutex_;
  CondVar wake_;
  std::vector<TimelineEvent> waiting_ HVD_GUARDED_BY(mutex_);
  std::uint64_t last_request_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t left_out_ HVD_GUARDED_BY(mutex_) = 0;
  bool marks_batches_ HVD_GUARDED_BY(mutex_) = false;
  bool takes_ HVD_GUARDED_BY(mutex_) = false;
  Status failure_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> on_{false};  ///< As takes_, without the lock.
};

}  // namespace hvd
