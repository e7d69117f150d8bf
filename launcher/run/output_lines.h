// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd {

/// How lines of output are shown.
struct OutputStyle {
  bool prefix = true;      ///< "[rank] " before each line; without it bytes pass as they come.
  bool timestamp = false;  ///< "HH:MM:SS.mmm " before that.
  bool from_srun = false;  ///< Lines come from `srun --label`: "3: text" is shown as "[3] text".
};

/// The rank of srun's own lines.
inline constexpr int kNoRank = -1;

/// One line of one task behind srun, as it wrote it.
struct TaskLine {
  int rank = kNoRank;
  std::string text;
};

/// Cuts one stream of one rank into whole lines and remembers the last ones.
/// Immutable style; not thread-safe.
class OutputLines {
 public:
  OutputLines(int rank, OutputStyle style) : rank_(rank), style_(style) {}

  /// Takes what was read; returns what to write now: whole lines only, unless nothing is put
  /// before lines. A line above 64 KiB is cut.
  std::string feed(std::string_view bytes);
  /// At the end of the stream: the unfinished line, with a line end.
  std::string finish();

  /// The last lines, oldest first, without prefix; of one task where srun labels them.
  const std::deque<std::string>& last_lines(int rank) { return last_[rank]; }
  /// srun's own lines (without label) and, behind kStepLine, what the task told about its step.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }
  /// The tasks' lines since the last call, where they come from srun.
  std::vector<TaskLine> take_task_lines() { return std::exchange(task_lines_, {}); }

 private:
  void remember(int rank, std::string_view line);
  std::string show(std::string_view line);

  int rank_;
  OutputStyle style_;
  std::string pending_;
  std::map<int, std::deque<std::string>> last_;
  std::vector<std::string> notices_;
  std::vector<TaskLine> task_lines_;
};

}  // namespace hvd
