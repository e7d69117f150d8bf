// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/exit_code.h"

#include <sys/wait.h>

#include <cstring>

#include "base/format.h"

namespace hvd {

int exit_code_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return exit_code_of_signal(WTERMSIG(wait_status));
  return WEXITSTATUS(wait_status);
}

std::string describe_signal(int signal) {
  const char* name = ::sigdescr_np(signal);
  return format_text("signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* const core = WCOREDUMP(wait_status) ? ", core dumped" : "";
    return describe_signal(WTERMSIG(wait_status)) + core;
  }
  return format_text("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace hvd
