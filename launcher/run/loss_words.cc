// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/loss_words.h"

#include "base/format.h"

namespace hvd {

std::string describe_lost_rank(int rank, const std::string& host, const std::string& how) {
  if (how.empty()) {
    return format_text("rank {} on host {} was lost, and is still there (stopped, or hung)", rank,
                       host);
  }
  return format_text("rank {} on host {} ended while others worked with it: {}", rank, host, how);
}

std::string hidden_failure_warning(int by, int lost) {
  return format_text(
      "warning: rank {} lost rank {}, and all programs ended with exit code 0\n"
      "hint: where the program did not mean that: a pipe in a shell hides the exit code of what is "
      "before it (bash: `set -o pipefail`)",
      by, lost);
}

}  // namespace hvd
