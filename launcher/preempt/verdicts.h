// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/preempt/folder_look.h"
#include "launcher/preempt/trial.h"

namespace hvd {

enum class PreemptVerdict { kOk, kFailed, kUnknown };

/// One line of the report.
struct PreemptLine {
  std::string part;   ///< "first run" or "second run".
  std::string check;  ///< "start", "signal", "checkpoint", ...
  PreemptVerdict verdict = PreemptVerdict::kUnknown;
  std::string text;
  std::string remedy;  ///< Empty: there is nothing to do.
};

/// The folder of the checkpoints, or the working directory in its place, over both runs.
struct FolderSeen {
  std::string folder;
  bool is_told = false;  ///< By --folder; otherwise files that change may be anything.
  FolderLook before;     ///< The first start.
  FolderLook at_signal;
  FolderLook after_first;
  FolderLook after_second;
  /// Files of `after_first` that the second run has read; nothing: that cannot be seen.
  std::optional<std::set<std::string>> read;
};

/// What is judged.
struct PreemptSeen {
  std::string signal;  ///< "USR2"
  bool kill = false;   ///< The first run was ended by SIGKILL instead.
  SecondsSeen after{};
  SecondsSeen grace{};
  Trial first;
  std::optional<Trial> second;  ///< Nothing: there was none.
  FolderSeen folder;
};

inline constexpr std::string_view kFirstRun = "first run";
inline constexpr std::string_view kSecondRun = "second run";

/// "0.4 s"
std::string in_seconds(SecondsSeen seconds);

/// How a run began, how it came to its end, what it had written (`files`) and what it left.
/// `second`: as a requeued job.
std::vector<PreemptLine> judge_run(const PreemptSeen& seen, const Trial& trial, bool second,
                                   std::vector<PreemptLine> files);

/// True where the signal reached the program, and it ended of it as it should.
bool ended_well(const PreemptSeen& seen, const Trial& trial);

/// What the first run has written.
std::vector<PreemptLine> judge_files(const PreemptSeen& seen);

/// Whether the second run has gone on from it.
PreemptLine judge_resume(const PreemptSeen& seen);

/// The lead of the signal before the time limit that the program needs.
PreemptLine advise_lead(const PreemptSeen& seen);

/// All lines, in order.
std::vector<PreemptLine> judge(const PreemptSeen& seen);

/// True where no line is a failure.
bool would_survive(const std::vector<PreemptLine>& lines);

}  // namespace hvd
