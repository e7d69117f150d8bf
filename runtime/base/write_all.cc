// SPDX-License-Identifier: Apache-2.0
#include "base/write_all.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace hvd {

ssize_t write_without_signal(int fd, std::string_view text) {
  sigset_t pipe;
  sigset_t pending;
  sigset_t before;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t count = ::write(fd, text.data(), text.size());
  const int failure = errno;
  // One that was pending before is not ours to take.
  if (count < 0 && failure == EPIPE && ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    while (::sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = failure;
  return count;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write_without_signal(fd, text);
    if (count < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace hvd
