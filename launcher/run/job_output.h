// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/plan/command.h"
#include "launcher/run/output_files.h"
#include "launcher/run/output_lines.h"
#include "launcher/run/output_printer.h"
#include "launcher/run/output_sink.h"
#include "transport/poller.h"

namespace hvd {

struct JobOutputOptions {
  OutputStyle style;
  std::optional<bool> folds;  ///< Absent: where the output is a terminal.
  int ranks = 1;
  std::string folder;  ///< --output-dir; empty: none.
};

/// All that the ranks and hvdrun itself write, from the ranks' pipes to the terminal and to files.
/// Ranks whose output nobody takes wait, as at the end of a full pipe; the caller never does.
/// Not thread-safe.
class JobOutput {
 public:
  explicit JobOutput(const JobOutputOptions& options);

  /// Watches the pipes in `poller` (which outlives this), by their numbers; `wake`: the number of
  /// what the writing threads say.
  Status watch_in(Poller& poller, std::uint64_t wake);
  /// Makes the files of --output-dir; see OutputFiles.
  Status start_files(const std::vector<Command>& commands, const std::function<bool(int)>& wait);
  /// Two streams by command; gives their writing ends.
  Status add_streams(const Command& command, UniqueFd& output, UniqueFd& error);
  bool is_stream(std::uint64_t number) const { return number < streams_.size(); }

  void read(std::size_t stream) { (void)read_once(stream); }
  /// Reads what that command said before it ended: no more than its pipes hold, for a process that
  /// it left behind may go on for ever.
  void drain(std::size_t command);
  /// The same for all; closes the pipes.
  void drain_all();
  /// Writes what waited long enough, lets ranks go on, complains. To be called in each round.
  Status advance(Clock::time_point now);
  /// When `advance` has something to do even if nothing else happens.
  Deadline next() const;

  /// To be called when `wake` comes. True, once for each: nobody reads our standard output, or
  /// standard error, any more. The other one is written on.
  bool lost_reader();
  bool has_lost_reader() const { return output_.is_lost || errors_.is_lost; }
  /// Something was not written for another reason: a full disk.
  bool has_failed() const {
    return output_.has_complained || errors_.has_complained || files_.has_failed();
  }
  /// The job comes to its end: no rank waits any more for who reads.
  void stop_waiting() { is_ending_ = true; }
  /// After the last line: the end of files.
  void finish();
  /// All was written, or could not be and the user was told.
  bool is_written() const {
    return output_.sink.is_done() && errors_.sink.is_done() && files_.is_done();
  }

  /// A message of hvdrun.
  void say(const std::string& text);
  /// What srun, or the hvdrun in its task 0, said since the last call.
  std::vector<SrunNotice> take_notices() { return std::exchange(notices_, {}); }
  /// The last lines of a rank, of standard error where there are any.
  const std::deque<std::string>& last_lines(std::size_t command, int rank) {
    return streams_[stream_of_last_lines(command, rank)].lines.last_lines(rank);
  }
  /// Says the last lines of a rank, unless the user has just seen them where messages go.
  void say_last_lines(std::size_t command, int rank);
  /// True where a rank has written since the last call of mark().
  bool has_more_since_mark() const { return has_more_; }
  void mark() { has_more_ = false; }

 private:
  /// One output stream of one rank.
  struct Stream {
    UniqueFd pipe;
    int target = -1;
    int rank = kNoRank;
    std::string_view suffix = {};  ///< Of its file: "out" or "err".
    OutputLines lines;
    bool shows_prompts = false;  ///< A line without an end is shown after a short time.
    bool is_paused = false;      ///< Not read while nobody reads what it writes.
    Deadline prompt = kForever;
  };
  /// Where streams of ranks lead: standard output or standard error.
  struct Outlet {
    OutputPrinter printer;
    OutputSink sink;
    bool is_lost = false;         ///< Nobody reads it any more.
    bool has_complained = false;  ///< Of output that cannot be written.
  };
  Status add_stream(const Command& command, std::string_view suffix, int target, UniqueFd& writer);
  bool read_once(std::size_t index);
  void put(std::size_t index, const std::vector<OutputLine>& lines);
  void write(int target, const std::string& text);
  void pause(Stream& stream);
  Status resume();
  bool has_to_wait(const Stream& stream) const;
  bool is_errors(int target) const;
  Outlet& outlet_of(int target) { return is_errors(target) ? errors_ : output_; }
  const Outlet& outlet_of(int target) const { return is_errors(target) ? errors_ : output_; }
  std::size_t stream_of_last_lines(std::size_t command, int rank);
  bool was_seen(std::size_t stream, int rank, std::size_t lines);
  void complain_of(Outlet& outlet, const OutputSink::Failure& failure);

  OutputStyle style_;
  bool is_one_rank_;
  Poller* poller_ = nullptr;
  const bool is_one_place_;
  std::shared_ptr<UniqueFd> wake_ = std::make_shared<UniqueFd>();  ///< Of the sinks.
  std::shared_ptr<SinkTarget> standard_output_;
  std::shared_ptr<SinkTarget> standard_error_;
  Outlet output_;
  Outlet errors_;  ///< Unused where both lead to one place.
  OutputFiles files_;
  std::vector<Stream> streams_;  ///< Two by command: output, error.
  std::vector<SrunNotice> notices_;
  bool is_ending_ = false;
  bool has_more_ = false;
};

}  // namespace hvd
