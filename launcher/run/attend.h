// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"
#include "launcher/plan/command.h"

namespace hvd {

/// Runs a process of an elastic job beside this one, in a task of its step: says to the hvdrun that
/// has started the step (HVD_STORE in `environment`) how it ends, and kills it on demand, or when
/// that hvdrun is gone. Where that hvdrun wishes it the process is started again, under the number
/// it says. Its streams are ours, and the signals of our process group reach it. Returns the exit
/// code of the task: 0 where the end was told.
int attend(const Command& command, int process, const std::string& host,
           const Environment& environment);

}  // namespace hvd
