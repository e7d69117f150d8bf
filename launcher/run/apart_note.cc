// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/apart_note.h"

#include <string_view>

#include "base/format.h"

namespace hvd {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// The script or module of Python that a command runs, by itself or under env, numactl, a profiler;
/// empty: none.
std::string_view script_of(const std::vector<std::string>& command) {
  for (auto one = command.begin(); one != command.end(); ++one) {
    if (one->ends_with(".py")) return base_name(*one);
    const auto next = one + 1;
    if (*one == "-m" && one != command.begin() && next != command.end() &&
        base_name(*(one - 1)).starts_with("python")) {
      return *next;
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> apart_note(int ranks, const std::vector<std::string>& command) {
  const std::string_view script = script_of(command);
  if (ranks < 2 || script.empty()) return {};
  return {format_text(
      "note: none of the {0} ranks called hvd.init(): {1} ran {0} times, each by itself\n"
      "hint: a script that trains as one job calls hvd.init() first; where its ranks met by "
      "torch.distributed or MPI, all is well",
      ranks, script)};
}

}  // namespace hvd
