// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/step_signal.h"

#include <spawn.h>
#include <unistd.h>

#include <vector>

#include "base/format.h"
#include "launcher/run/text_pointers.h"

namespace hvd {

bool signal_step(const std::string& step, int signal) {
  const std::vector<std::string> arguments{"scancel", format_text("--signal={}", signal), step};
  const std::vector<char*> pointers = pointers_to(arguments);
  pid_t pid = 0;
  return ::posix_spawnp(&pid, "scancel", nullptr, nullptr, pointers.data(), environ) == 0;
}

}  // namespace hvd
