// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace hvd {

/// How lines of output are shown.
struct OutputStyle {
  bool prefix = true;      ///< "[rank] " before each line; without it bytes pass as they come.
  bool timestamp = false;  ///< "HH:MM:SS.mmm " before that.
  bool from_srun = false;  ///< Lines come from `srun --label`: "3: text" is shown as "[3] text".
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

  /// The last lines, oldest first, without prefix.
  const std::deque<std::string>& last_lines() const { return last_; }

 private:
  void remember(std::string_view line);
  std::string decorate(std::string_view line) const;

  int rank_;
  OutputStyle style_;
  std::string pending_;
  std::deque<std::string> last_;
};

}  // namespace hvd
