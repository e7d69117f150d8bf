// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/step_signal.h"

#include <spawn.h>
#include <unistd.h>

#include <vector>

#include "base/format.h"
#include "launcher/run/text_pointers.h"

namespace hvd {

bool signal_steps(const std::vector<std::string>& steps, int signal) {
  std::vector<std::string> arguments{"scancel", format_text("--signal={}", signal)};
  arguments.insert(arguments.end(), steps.begin(), steps.end());
  const std::vector<char*> pointers = pointers_to(arguments);
  pid_t pid = 0;
  return ::posix_spawnp(&pid, "scancel", nullptr, nullptr, pointers.data(), environ) == 0;
}

}  // namespace hvd
