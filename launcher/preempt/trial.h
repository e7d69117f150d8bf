// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "launcher/options/run_options.h"

namespace hvd {

using SecondsSeen = std::chrono::duration<double>;

/// One start of the program, and how it is brought to its end.
struct TrialPlan {
  RunOptions run;
  int signal = 0;  ///< SIGKILL: to all processes at once.
  std::chrono::milliseconds after{10'000};
  std::chrono::milliseconds grace{120'000};
  std::chrono::milliseconds start_limit{120'000};
  std::function<void()> before_signal;
};

/// What was seen of it.
struct Trial {
  int processes = 0;        ///< 0: nothing was started, and a message said why.
  bool is_by_srun = false;  ///< `processes` is 1, and the ranks are not seen.
  std::optional<SecondsSeen> started =
      {};  ///< Until all ranks were in hvd.init(), or the step began.
  std::optional<SecondsSeen> signalled = {};  ///< Until the signal, from the start.
  std::optional<bool> handles = {};  ///< Some rank has a handler for it; nothing: not seen.
  bool was_killed = false;           ///< It did not end within the grace.
  SecondsSeen end{};                 ///< From the signal; from the start where it ended before.
  int exit_code = 0;                 ///< Of hvdrun.
  std::map<int, int> statuses = {};  ///< By rank, as waitpid gives them; empty: not seen.
  int left = 0;                      ///< Processes below the ranks that outlived them.
  std::string left_command = {};     ///< One of them.
  int interrupt = 0;                 ///< The signal that ended the test itself; 0: none.
  std::int64_t signalled_at_ns = 0;  ///< By the clock of files.
};

/// Starts hvdrun as a child of this process, which is single-threaded and has set itself up as
/// child subreaper; when it returns, no process of the job is left.
Result<Trial> run_trial(const TrialPlan& plan);

}  // namespace hvd
