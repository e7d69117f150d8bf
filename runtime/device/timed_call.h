// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "base/deadline.h"

namespace hvd {

/// How long the end of an engine waits for calls of the driver that wait for a device.
inline constexpr std::chrono::seconds kDevicePatience{2};

/// A call that waits for a device, and without end where that hangs, on a thread of its own.
/// Thread-safe.
class TimedCall {
 public:
  /// Begins. What `call` holds is released as it ends, on that thread, before anyone is told.
  explicit TimedCall(std::function<void()> call);
  /// Waits for the end. False: it has not come in time. Then the call goes on by itself, also when
  /// this is destroyed.
  bool ends_by(Deadline deadline) const;

 private:
  struct Ending;
  std::shared_ptr<Ending> ending_;  ///< With the thread.
};

/// Runs `call` and waits for it. False: what it uses must stay.
inline bool ends_in_time(std::function<void()> call, Deadline deadline) {
  return TimedCall(std::move(call)).ends_by(deadline);
}

}  // namespace hvd
