// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace hvd {

/// True where standard input is a terminal that belongs to others at this moment: hvdrun was
/// started in the background, and a rank, which is in another session, would take what the user
/// types for the shell.
inline bool is_in_background() {
  if (::isatty(STDIN_FILENO) != 1) return false;
  const pid_t owner = ::tcgetpgrp(STDIN_FILENO);
  return owner != -1 && owner != ::getpgrp();
}

/// True where standard output and standard error lead to the same place, and order matters.
inline bool is_one_place() {
  struct stat output {};
  struct stat error {};
  return ::fstat(STDOUT_FILENO, &output) == 0 && ::fstat(STDERR_FILENO, &error) == 0 &&
         output.st_dev == error.st_dev && output.st_ino == error.st_ino;
}

}  // namespace hvd
