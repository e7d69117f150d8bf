// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

namespace hvd {

/// What the supervising hvdrun hands on to the ranks: the first three end the job, the last stops
/// it.
inline constexpr std::array<int, 6> kHandledSignals{SIGINT,  SIGTERM, SIGHUP,
                                                    SIGUSR1, SIGUSR2, SIGTSTP};

/// True where whoever started hvdrun wants it to live on when its terminal hangs up (nohup), or
/// not to be stopped by the terminal. SIGINT is another matter: every shell without job control
/// ignores it for `hvdrun ... &`, and `kill -INT $!` must still reach the job, as with mpirun, srun
/// and torchrun.
inline bool is_ignored(int signal) {
  struct sigaction action {};
  return (signal == SIGHUP || signal == SIGTSTP) && ::sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

/// Blocks them, for a signal descriptor; call before any thread exists. Returns the set, without
/// what is ignored: blocked, it would come after all. Ends of children are to be told
/// even where SIGCHLD was inherited as ignored.
inline sigset_t block_handled_signals() {
  (void)std::signal(SIGCHLD, SIG_DFL);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kHandledSignals) {
    if (!is_ignored(signal)) ::sigaddset(&signals, signal);
  }
  (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace hvd
