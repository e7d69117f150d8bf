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
  int first_task = 0;      ///< With that: as which task 0 is shown.
  int folded_ranks = 0;    ///< Above 1: equal lines of these many ranks are shown once.

  /// Bytes pass as they come.
  bool is_raw() const { return !prefix && !timestamp && !from_srun; }
};

/// The rank of srun's own lines.
inline constexpr int kNoRank = -1;

/// A line of srun itself or, behind kStepLine, of the hvdrun in a task.
struct SrunNotice {
  std::string text;
  int first_process = 0;  ///< Which task 0 of that srun is.
};

/// One line of one task behind srun, as it wrote it.
struct TaskLine {
  int rank = kNoRank;
  std::string text;
};

/// What to show of one line; of a raw stream any bytes.
struct OutputLine {
  int rank = kNoRank;
  std::string text;        ///< With the line's end, where it has one.
  bool continues = false;  ///< The beginning of the line was given out before.
  bool is_open = false;    ///< The rest of the line comes later, if at all: a prompt.
};

/// Cuts one stream of one rank into whole lines and remembers the last ones.
/// Immutable style; not thread-safe.
class OutputLines {
 public:
  OutputLines(int rank, OutputStyle style) : rank_(rank), style_(style) {}

  /// Takes what was read; returns what to show now: whole lines only, unless nothing is put
  /// before lines. A line above 64 KiB is cut into several.
  std::vector<OutputLine> feed(std::string_view bytes);
  /// True where the beginning of a line waits for its end.
  bool has_open() const { return !style_.is_raw() && shown_ < pending_.size(); }
  /// What there is of the line whose end has not come.
  std::vector<OutputLine> take_open();
  /// At the end of the stream: the unfinished line.
  std::vector<OutputLine> finish();

  /// The last lines, oldest first, without prefix; of one task where srun labels them.
  const std::deque<std::string>& last_lines(int rank) { return last_[rank]; }
  /// srun's own lines (without label) and, behind kStepLine, what the task told about its step.
  std::vector<SrunNotice> take_notices() { return std::exchange(notices_, {}); }
  /// The tasks' lines since the last call, where they come from srun.
  std::vector<TaskLine> take_task_lines() { return std::exchange(task_lines_, {}); }

 private:
  void remember(int rank, std::string_view line);
  void give_out(std::string_view line, std::vector<OutputLine>& out);

  int rank_;
  int cut_rank_ = kNoRank;  ///< Whose line was cut.
  bool is_cut_ = false;     ///< What comes next is the rest of a line.
  OutputStyle style_;
  std::string pending_;
  std::size_t shown_ = 0;  ///< So much of the pending line was given out.
  std::map<int, std::deque<std::string>> last_;
  std::vector<SrunNotice> notices_;
  std::vector<TaskLine> task_lines_;
};

}  // namespace hvd
