// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string_view>

namespace hvd {

/// One write(), with its result and errno. A pipe or socket whose reader is gone is EPIPE, without
/// the SIGPIPE that would end a program that does not expect it. Thread-safe.
ssize_t write_without_signal(int fd, std::string_view text);

/// Writes all of it in this way, and waits where the descriptor is full, also one that does not
/// block: 0, or the errno of the failure. Thread-safe.
int write_all(int fd, std::string_view text);

}  // namespace hvd
