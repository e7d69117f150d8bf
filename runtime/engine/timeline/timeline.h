// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/timeline/timeline_options.h"
#include "engine/timeline/timeline_tape.h"
#include "engine/timeline/traced_request.h"

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

  /// For the rest of the file at its end: a file system that hangs must not hold up the program.
  static constexpr std::chrono::milliseconds kEndLimit{5'000};

  Timeline(int rank, std::string host, std::size_t most_waiting = kMostWaiting,
           std::chrono::milliseconds end_limit = kEndLimit)
      : rank_(rank),
        host_(std::move(host)),
        end_limit_(end_limit),
        tape_(std::make_shared<TimelineTape>(rank, most_waiting)) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Begins the file, over what was in it. Ok, and nothing else, on a rank that is to write none.
  /// kSystem: it cannot be opened; kInvalidArgument: no name, or the timeline is on already;
  /// kTimeout: the last file is not written yet.
  Status start(const TimelineOptions& options);
  /// Writes the rest and ends the file; off already: ok. kSystem: the file is not whole; kTimeout:
  /// it is not after the limit, since the file system does not answer.
  Status stop();

  bool is_on() const { return tape_->is_open(); }

  /// `operation`: of kKindNames. `has_own_row`: the name is not one made by us. Traces nothing
  /// where the request is left out.
  TracedRequest submitted(std::string_view operation, std::string_view name, int process_set,
                          std::size_t bytes, bool has_own_row);
  void decided_batch(std::uint64_t number, int process_set, std::size_t requests);

 private:
  friend class TracedRequest;

  Status end() HVD_REQUIRES(control_);
  Status hanging() const HVD_REQUIRES(control_);

  const int rank_;
  const std::string host_;
  const std::chrono::milliseconds end_limit_;
  const std::shared_ptr<TimelineTape> tape_;  ///< With the writer's thread.

  Mutex control_;  ///< One start or stop at a time.
  std::string path_ HVD_GUARDED_BY(control_);
  std::thread writer_ HVD_GUARDED_BY(control_);
  bool hangs_ HVD_GUARDED_BY(control_) = false;  ///< The writer has had end_limit_ to end.
};

}  // namespace hvd
