// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hvd::tensorflow {

/// How many calls of collectives this process has begun, and how many of them have ended: those
/// between wait for other ranks. Thread-safe.
struct CallCounts {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::chrono::steady_clock::duration> last_begin{};
  std::atomic<std::chrono::steady_clock::duration> last_end{};
};

CallCounts& call_counts();

}  // namespace hvd::tensorflow
