// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/command.h"
#include "launcher/run/keeper.h"

namespace hvd {

/// Replaces this process by the command: binding, default signals, exec. On failure prints why and
/// ends the process with 127 (not found) or 126.
[[noreturn]] void exec_command(const Command& command);

/// In a forked child: takes the streams as 0, 1 and 2 and executes the command.
[[noreturn]] void become_command(const Command& command, const RankStreams& streams);

}  // namespace hvd
