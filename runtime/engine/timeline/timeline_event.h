// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd {

/// One moment in the life of a request, or of a batch, as a timeline takes it down.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kSubmitted, kDecided, kStarted, kCompleted, kWaited, kBatch };

  Kind kind = Kind::kSubmitted;
  bool has_own_row = true;      ///< Submitted: the name is the user's and comes again.
  Code code = Code::kOk;        ///< Completed.
  int process_set = 0;          ///< Submitted, batch.
  std::uint64_t request = 0;    ///< Which; never 0, and never again. 0: a batch or a wait.
  std::uint64_t number = 0;     ///< Of the batch; submitted: of bytes; waited: of the thread.
  std::uint64_t requests = 0;   ///< In the batch.
  Clock::duration length{0};    ///< Waited.
  std::string_view operation;   ///< Submitted: of kKindNames, which lives for ever.
  std::string text;             ///< Submitted, waited: the name; completed: what failed.
  Clock::time_point time = {};  ///< Waited: of the end.
};

}  // namespace hvd
