// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "launcher/options/run_options.h"

namespace hvd {

/// What the user typed after `hvdrun test-preempt`.
struct PreemptOptions {
  RunOptions run;  ///< The ranks and the program.
  std::chrono::milliseconds after{10'000};
  int signal = 0;  ///< 0: that of the scripts which hvdrun writes.
  std::chrono::milliseconds grace{120'000};
  std::chrono::milliseconds start_limit{120'000};
  std::string folder;  ///< Of the checkpoints; empty: not told.
  bool kill = false;   ///< The first run ends by SIGKILL, without a warning.
  bool json = false;
};

}  // namespace hvd
