// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace hvd
