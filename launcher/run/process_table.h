// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <string_view>
#include <vector>

#include "base/process_state.h"
#include "base/unique_fd.h"

namespace hvd {

using ProcessTable = std::map<pid_t, ProcessStat>;

/// All processes of this machine that we may see.
ProcessTable read_processes();

/// The processes below `root` that are not zombies.
std::vector<pid_t> descendants(const ProcessTable& processes, pid_t root);

/// What decides about a process that may get a signal.
struct ProcessNature {
  bool is_shell = false;
  bool catches = false;  ///< It has a handler for the signal.
};

/// True where `program`, the path of an executable, is a shell.
bool is_shell(std::string_view program);

/// The nature of a living process, for `signal`.
ProcessNature nature_of(pid_t pid, int signal);

/// Who gets `signal`, meant for the rank `rank`: the rank, and behind a shell its children too, as
/// deep as there are shells. Never the children of other programs: a data loader's workers would
/// die before the rank has saved its work. Signals that do not ask for the end (SIGUSR1, SIGUSR2)
/// pass over a shell that has children and no trap for them: it would die.
/// `nature`: ProcessNature(pid_t).
template <class Nature>
std::vector<pid_t> signal_targets(const ProcessTable& processes, pid_t rank, bool asks_for_end,
                                  Nature nature) {
  std::vector<pid_t> targets;
  std::vector<pid_t> open{rank};
  while (!open.empty() && targets.size() <= processes.size()) {
    const pid_t pid = open.back();
    open.pop_back();
    const ProcessNature found = nature(pid);
    bool has_children = false;
    for (const auto& [child, entry] : processes) {
      if (!found.is_shell || entry.parent != pid || entry.is_zombie()) continue;
      open.push_back(child);
      has_children = true;
    }
    if (asks_for_end || !has_children || found.catches) targets.push_back(pid);
  }
  return targets;
}

/// True while the process lives that had the number `pid` when `entry` was read.
bool is_alive(pid_t pid, const ProcessStat& entry);

/// A pidfd of `pid`; -1: the kernel has none, or the process is gone.
int open_process(pid_t pid);

/// Sends `signal` to the process that had the number `pid` when `entry` was read, and to no other.
/// Returns its pidfd; closed: the process is gone, or the kernel has no pidfds: then the number
/// might become another's in the moment between the look and the signal.
UniqueFd signal_process(pid_t pid, const ProcessStat& entry, int signal);

}  // namespace hvd
