// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

namespace hvd {

/// What the supervising hvdrun hands on to the ranks: the first three end the job.
inline constexpr std::array<int, 5> kHandledSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// Blocks them, for a signal descriptor; call before any thread exists. Returns the set.
inline sigset_t block_handled_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kHandledSignals) ::sigaddset(&signals, signal);
  (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace hvd
