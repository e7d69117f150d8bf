// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// Waits until `fd` has one of `events` (poll(2) bits); false when the deadline passed.
Result<bool> wait_ready(int fd, short events, Deadline deadline);

/// Whole transfers over a non-blocking socket, for the start of a job only. kTimeout says "after
/// waiting for WHAT"; kPeerLost when the other end closed.
Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline, std::string_view what);
Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline, std::string_view what);

/// A length-prefixed message of at most `limit` bytes.
Status send_frame(int fd, std::span<const std::byte> message, Deadline deadline,
                  std::string_view what);
Result<Bytes> receive_frame(int fd, std::size_t limit, Deadline deadline, std::string_view what);

/// A connection on which little is said ends, on both sides, once the other host has not answered
/// for about so many seconds: its kernel is asked each second, whatever its process does.
void end_when_unanswered(int fd, int seconds);

}  // namespace hvd
