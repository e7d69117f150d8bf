// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/step_signal.h"

#include <fcntl.h>
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
  // That a step has ended meanwhile is no news for the user.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failure = ::posix_spawnp(&pid, "scancel", &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failure == 0;
}

}  // namespace hvd
