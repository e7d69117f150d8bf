// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// Prints the broken invariant and aborts the process.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace hvd

/// Aborts when an invariant of our own code is broken. Never for user input or a lost peer.
#define HVD_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::hvd::check_failed(#condition, __FILE__, __LINE__))
