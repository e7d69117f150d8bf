// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/call_counts.h"

#include <unistd.h>

#include <cerrno>

namespace hvd::tensorflow {

namespace {

// A thread that waits for a signal is awake within this time.
constexpr auto kLate = std::chrono::milliseconds(200);

}  // namespace

CallCounts& call_counts() {
  static auto* const counts = new CallCounts;
  return *counts;
}

}  // namespace hvd::tensorflow

/// What the calls of this process have come to. For hvd/tensorflow/interrupts.py.
extern "C" __attribute__((visibility("default"))) void hvd_tf_calls(std::uint64_t* begun,
                                                                    std::uint64_t* ended) {
  // In this order no call seems to have ended before it began.
  *ended = hvd::tensorflow::call_counts().ended.load();
  *begun = hvd::tensorflow::call_counts().begun.load();
}

/// Waits until the pipe, to which Python writes the numbers of signals, has some: how many came
/// into `numbers`, which has room for `room`; 0 or less when it was closed. `begun` and `ended` are
/// equal where no call waited when they came: one that began later may be the answer to them.
extern "C" __attribute__((visibility("default"))) int hvd_tf_await_signals(
    int pipe, unsigned char* numbers, int room, std::uint64_t* begun, std::uint64_t* ended) {
  ssize_t count = 0;
  do {
    count = ::read(pipe, numbers, static_cast<std::size_t>(room));
  } while (count < 0 && errno == EINTR);
  hvd_tf_calls(begun, ended);
  const auto last = hvd::tensorflow::call_counts().last_begin.load();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  if (now - last < hvd::tensorflow::kLate) *begun = *ended;
  return static_cast<int>(count);
}
