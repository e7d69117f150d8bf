// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "base/deadline.h"

namespace hvd {

/// How long the end of an engine waits for calls of the driver that wait for a device.
inline constexpr std::chrono::seconds kDevicePatience{2};

/// Runs `call`, which waits for a device and without end where that hangs, on a thread of its own.
/// False: it has not ended in time. Then it goes on by itself, and what it uses must stay.
bool ends_in_time(std::function<void()> call, Deadline deadline);

}  // namespace hvd
