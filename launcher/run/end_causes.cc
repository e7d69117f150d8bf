// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/end_causes.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "base/format.h"
#include "launcher/node/nvml.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// The GPU that the command has got; empty: none, or not known.
std::string gpu_of(const Command& command) {
  const std::string start = format_text("{}=", launch_env::kGpuId);
  for (const std::string& variable : command.variables) {
    if (variable.starts_with(start)) return variable.substr(start.size());
  }
  return "";
}

}  // namespace

void EndCauses::listen_for(const std::vector<Command>& commands) {
  std::vector<std::string> gpus;
  for (const Command& command : commands) {
    const std::string gpu = gpu_of(command);
    const bool is_new = std::find(gpus.begin(), gpus.end(), gpu) == gpus.end();
    if (!gpu.empty() && is_new) gpus.push_back(gpu);
  }
  gpus_.listen(kNvmlLibrary, gpus);
}

std::string EndCauses::explain(int status, const Command& command) {
  if (status == 0) return "";
  const bool is_kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return gpus_.explain_end(gpu_of(command), Clock::now()) + (is_kill ? memory_.explain_kill() : "");
}

}  // namespace hvd
