// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/apart_note.h"

#include "base/format.h"
#include "launcher/run/python_command.h"

namespace hvd {

std::vector<std::string> apart_note(int ranks, const std::vector<std::string>& command) {
  const std::optional<PythonTarget> target = python_target(command);
  if (ranks < 2 || !target) return {};
  return {format_text(
      "note: none of the {0} ranks called hvd.init(): {1} ran {0} times, each by itself\n"
      "hint: a script that trains as one job calls hvd.init() first; where its ranks met by "
      "torch.distributed or MPI, all is well",
      ranks, target->name)};
}

}  // namespace hvd
