// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "launcher/run/output_lines.h"

namespace hvd {

/// Turns lines into what one place (a terminal, a pipe, a file) gets, for all streams that lead
/// there: puts rank and time before lines, ends a line that another stream left open, and shows
/// equal lines of several ranks once, as "[0-3] line". For that a line waits for those of the other
/// ranks, 100 ms at most; lines of one rank stay in order. Not thread-safe.
class OutputPrinter {
 public:
  explicit OutputPrinter(OutputStyle style) : style_(style) {}

  /// What to write now. `source`: the stream of the lines; continued lines are its own.
  std::string print(int source, const std::vector<OutputLine>& lines, Clock::time_point now);
  /// A message of hvdrun's own, after all that came before it.
  std::string print_message(const std::string& text);
  /// What has waited long enough.
  std::string advance(Clock::time_point now);
  /// When `advance` has something to give even if nothing else happens.
  Deadline next() const;

  /// How many of the last 20 lines shown here are of that rank's stream.
  std::size_t recent(int source, int rank) const;

 private:
  struct Waiting {
    std::vector<std::pair<int, int>> speakers;  ///< Source and rank.
    OutputLine line;
    std::string time;
    Clock::time_point limit;
  };
  bool is_folded() const { return style_.folded_ranks > 1 && style_.prefix; }
  bool fold(int source, const OutputLine& line);
  void release(std::string& out);
  void write(const Waiting& waiting, std::string& out);
  void end_line(std::string& out);

  OutputStyle style_;
  std::deque<Waiting> waiting_;
  std::size_t first_ = 0;            ///< Number of the first that waits.
  std::map<int, std::size_t> last_;  ///< By rank: number after that of its last line.
  std::optional<int> open_;          ///< The stream whose line has no end yet.
  char end_ = '\n';                  ///< The last character given out.
  std::deque<std::pair<int, int>> recent_;
};

}  // namespace hvd
