// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "engine/timeline/timeline_event.h"

namespace hvd {

/// Events on their way to the file of a timeline. Nobody who adds one waits for the disk.
///
/// The timeline shares it with the thread that writes, which outlives the timeline where a file
/// system does not answer. Thread-safe.
class TimelineTape {
 public:
  TimelineTape(int rank, std::size_t most_waiting) : rank_(rank), most_waiting_(most_waiting) {}

  /// Takes events from now on; a writer is about to run.
  void open(bool mark_batches);
  /// Takes no more; the writer ends with what there is.
  void close();
  /// relaxed: pairs with nothing; who finds it open looks again under the lock.
  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }

  void add(TimelineEvent event);
  /// The same for one that is left out where too many wait.
  void add_if_room(TimelineEvent event);
  /// The number of the request that the event begins; 0 where it is left out.
  std::uint64_t add_request(TimelineEvent event);
  void add_batch(TimelineEvent event);

  /// The writer's thread: `text` first, then events until close(), or until the file fails.
  void write(UniqueFd file, const std::string& path, std::string text);
  /// Waits for the end of write(); false at the deadline.
  bool wait_until_written(Deadline deadline);
  Status take_failure();

 private:
  bool append(TimelineEvent event, bool may_be_left_out) HVD_REQUIRES(mutex_);
  void write_events(UniqueFd file, const std::string& path, std::string text);
  /// Sleeps, then takes what there is; false after the last.
  bool next(std::vector<TimelineEvent>& taken, std::uint64_t& left_out);
  void give_up(const Status& failure);
  void set_open(bool is_open) HVD_REQUIRES(mutex_);

  const int rank_;
  const std::size_t most_waiting_;

  Mutex mutex_;
  CondVar wake_;
  CondVar written_;
  std::vector<TimelineEvent> waiting_ HVD_GUARDED_BY(mutex_);
  std::uint64_t last_request_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t left_out_ HVD_GUARDED_BY(mutex_) = 0;
  bool marks_batches_ HVD_GUARDED_BY(mutex_) = false;
  bool takes_ HVD_GUARDED_BY(mutex_) = false;
  bool is_written_ HVD_GUARDED_BY(mutex_) = true;  ///< No writer runs.
  Status failure_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> is_open_{false};  ///< As takes_, without the lock.
};

/// "rank 0: cannot write the timeline 'path': ..."
Status timeline_failure(std::string_view what, const std::string& path, int rank, int error_number);

}  // namespace hvd
