// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/job_output.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "launcher/run/terminal.h"

namespace hvd {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} * 1024;
/// After the last byte of a line without an end: a prompt, most likely.
constexpr std::chrono::milliseconds kPromptLimit{200};
/// While the job ends its ranks are never held up by their output; what is beyond this is lost.
constexpr std::size_t kMostUnread = std::size_t{64} * 1024 * 1024;

/// True where somebody may sit before it and wait for a prompt.
bool is_watched(int target) {
  if (::isatty(target) == 1) return true;
  struct stat found {};
  const bool is_file = ::fstat(target, &found) == 0 && S_ISREG(found.st_mode);
  return !is_file && ::isatty(STDIN_FILENO) == 1;
}

OutputStyle style_of(const JobOutputOptions& options, int target) {
  OutputStyle style = options.style;
  const bool folds = options.folds.value_or(::isatty(target) == 1);
  style.folded_ranks = folds ? options.ranks : 0;
  return style;
}

}  // namespace

JobOutput::JobOutput(const JobOutputOptions& options)
    : style_(options.style),
      is_one_rank_(options.ranks == 1),
      is_one_place_(is_one_place()),
      standard_output_(std::make_shared<SinkTarget>(STDOUT_FILENO)),
      standard_error_(std::make_shared<SinkTarget>(STDERR_FILENO)),
      output_{OutputPrinter(style_of(options, STDOUT_FILENO)), OutputSink(wake_)},
      errors_{OutputPrinter(style_of(options, STDERR_FILENO)), OutputSink(wake_)},
      files_(options.folder, wake_) {}

Status JobOutput::watch_in(Poller& poller, std::uint64_t wake) {
  poller_ = &poller;
  wake_->reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_->is_open()) return Status::system("eventfd", errno);
  return poller_->add(wake_->get(), wake);
}

Status JobOutput::start_files(const std::vector<Command>& commands,
                              const std::function<bool(int)>& wait) {
  std::vector<int> ranks;
  for (const Command& command : commands) {
    if (command.rank && !command.starts_later) ranks.push_back(*command.rank);
  }
  return files_.start(ranks, wait);
}

Status JobOutput::add_streams(const Command& command, UniqueFd& output, UniqueFd& error) {
  const std::size_t first = streams_.size();
  Status added = Status::ok();
  if (!command.starts_later) {
    added = add_stream(command, "out", STDOUT_FILENO, output);
    if (added.is_ok()) added = add_stream(command, "err", STDERR_FILENO, error);
  }
  // Two by command, whatever comes.
  while (streams_.size() < first + 2) {
    const int rank = command.rank.value_or(kNoRank);
    streams_.push_back({.pipe = UniqueFd(), .rank = rank, .lines = OutputLines(rank, style_)});
  }
  return added;
}

Status JobOutput::add_stream(const Command& command, std::string_view suffix, int target,
                             UniqueFd& writer) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe", errno);
  writer.reset(ends[1]);
  const int rank = command.rank.value_or(kNoRank);
  OutputStyle style = style_;
  style.first_task = command.first_process;
  Stream stream{.pipe = UniqueFd(ends[0]),
                .target = target,
                .rank = rank,
                .suffix = suffix,
                .lines = OutputLines(rank, style),
                .shows_prompts = command.takes_stdin && is_watched(target)};
  (void)::fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK);
  HVD_TRY(poller_->add(stream.pipe.get(), streams_.size()));
  streams_.push_back(std::move(stream));
  return Status::ok();
}

/// One read; false when there is nothing more for now.
bool JobOutput::read_once(std::size_t index) {
  Stream& stream = streams_[index];
  if (!stream.pipe.is_open()) return false;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = ::read(stream.pipe.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  stream.prompt = kForever;
  if (got == 0) {
    put(index, stream.lines.finish());
    // The keeper's copy of the pipe would keep it in the epoll set.
    poller_->remove(stream.pipe.get());
    stream.pipe.reset();
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  if (stream.rank != kNoRank && files_.waiting() < kMostUnread) {
    files_.add(stream.rank, stream.suffix, bytes);
  }
  put(index, stream.lines.feed(bytes));
  if (stream.shows_prompts && stream.lines.has_open()) {
    stream.prompt = Deadline::after(kPromptLimit);
  }
  for (const TaskLine& line : stream.lines.take_task_lines()) {
    if (files_.waiting() < kMostUnread) files_.add(line.rank, stream.suffix, line.text);
  }
  for (SrunNotice& notice : stream.lines.take_notices()) notices_.push_back(std::move(notice));
  pause(stream);
  return true;
}

void JobOutput::drain(std::size_t command) {
  for (std::size_t index = 2 * command; index < 2 * command + 2; ++index) {
    const int fd = streams_[index].pipe.get();
    const int held = fd < 0 ? 0 : ::fcntl(fd, F_GETPIPE_SZ);
    const auto most = static_cast<std::size_t>(std::max(held, 0)) / kReadBytes + 1;
    for (std::size_t reads = 0; reads < most && read_once(index); ++reads) {
    }
  }
}

void JobOutput::drain_all() {
  for (std::size_t i = 0; 2 * i < streams_.size(); ++i) drain(i);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    put(i, stream.lines.finish());
    stream.prompt = kForever;
    if (!stream.pipe.is_open()) continue;
    poller_->remove(stream.pipe.get());
    stream.pipe.reset();
  }
  const Clock::time_point end = Clock::time_point::max();
  write(STDOUT_FILENO, output_.printer.advance(end));
  write(STDERR_FILENO, errors_.printer.advance(end));
}

void JobOutput::put(std::size_t index, const std::vector<OutputLine>& lines) {
  if (lines.empty()) return;
  has_more_ = true;
  const int target = streams_[index].target;
  OutputPrinter& printer = outlet_of(target).printer;
  write(target, printer.print(static_cast<int>(index), lines, Clock::now()));
}

void JobOutput::write(int target, const std::string& text) {
  Outlet& outlet = outlet_of(target);
  if (outlet.is_lost || text.empty()) return;
  if (outlet.sink.waiting() < kMostUnread) {
    outlet.sink.add(target == STDERR_FILENO ? standard_error_ : standard_output_, text);
  } else if (!std::exchange(outlet.has_complained, true)) {
    say("nobody reads the output: what the ranks write from here on is lost");
  }
}

Status JobOutput::advance(Clock::time_point now) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].prompt.is_forever() || now < streams_[i].prompt.time()) continue;
    streams_[i].prompt = kForever;
    put(i, streams_[i].lines.take_open());
  }
  write(STDOUT_FILENO, output_.printer.advance(now));
  write(STDERR_FILENO, errors_.printer.advance(now));
  if (const std::string complaint = files_.take_complaint(now); !complaint.empty()) say(complaint);
  return resume();
}

Deadline JobOutput::next() const {
  Deadline next = output_.printer.next().earlier(errors_.printer.next()).earlier(files_.next());
  for (const Stream& stream : streams_) next = next.earlier(stream.prompt);
  return next;
}

bool JobOutput::is_errors(int target) const { return target == STDERR_FILENO && !is_one_place_; }

bool JobOutput::has_to_wait(const Stream& stream) const {
  const Outlet& outlet = outlet_of(stream.target);
  return !is_ending_ && ((!outlet.is_lost && outlet.sink.is_full()) || files_.is_full());
}

/// Ranks whose output nobody reads wait, as at the end of a full pipe; but not to end.
void JobOutput::pause(Stream& stream) {
  if (stream.is_paused || !has_to_wait(stream)) return;
  stream.is_paused = true;
  poller_->remove(stream.pipe.get());
}

Status JobOutput::resume() {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.is_paused || has_to_wait(stream)) continue;
    stream.is_paused = false;
    if (stream.pipe.is_open()) HVD_TRY(poller_->add(stream.pipe.get(), i));
  }
  return Status::ok();
}

void JobOutput::finish() {
  files_.finish();
  output_.sink.close(standard_output_);
  outlet_of(STDERR_FILENO).sink.close(standard_error_);
}

bool JobOutput::lost_reader() {
  eventfd_t count = 0;
  (void)::eventfd_read(wake_->get(), &count);
  bool is_news = false;
  for (Outlet* outlet : {&output_, &errors_}) {
    const OutputSink::Failure failure = outlet->sink.take_failure();
    if (failure.error_number == EPIPE) is_news = !std::exchange(outlet->is_lost, true) || is_news;
    if (failure.error_number != 0 && failure.error_number != EPIPE) complain_of(*outlet, failure);
  }
  return is_news;
}

/// Any other failure than a lost reader (a full disk) is said once, and the job goes on.
void JobOutput::complain_of(Outlet& outlet, const OutputSink::Failure& failure) {
  if (std::exchange(outlet.has_complained, true)) return;
  say(
      format_text("standard {} cannot be written: {}; the job goes on, and what is not written is "
                  "lost",
                  failure.target == standard_error_ ? "error" : "output",
                  std::generic_category().message(failure.error_number)));
}

void JobOutput::say(const std::string& text) {
  Outlet& outlet = outlet_of(STDERR_FILENO);
  outlet.sink.add(standard_error_, outlet.printer.print_message("hvdrun: " + text + "\n"));
}

/// True where the last lines of the rank stand before the user's eyes already.
bool JobOutput::was_seen(std::size_t stream, int rank, std::size_t lines) {
  const int target = streams_[stream].target;
  const Outlet& outlet = outlet_of(target);
  if (outlet.is_lost || outlet.has_complained) return false;
  const bool is_one_screen = ::isatty(target) == 1 && ::isatty(STDERR_FILENO) == 1;
  if (target != STDERR_FILENO && !is_one_place_ && !is_one_screen) return false;
  if (style_.is_raw()) return is_one_rank_;
  return outlet.printer.recent(static_cast<int>(stream), rank) >= lines;
}

std::size_t JobOutput::stream_of_last_lines(std::size_t command, int rank) {
  const bool has_errors = !streams_[2 * command + 1].lines.last_lines(rank).empty();
  return 2 * command + (has_errors ? 1 : 0);
}

void JobOutput::say_last_lines(std::size_t command, int rank) {
  const std::size_t stream = stream_of_last_lines(command, rank);
  const std::deque<std::string>& lines = last_lines(command, rank);
  if (lines.empty() || was_seen(stream, rank, lines.size())) return;
  const bool is_error = streams_[stream].target == STDERR_FILENO;
  say(format_text("its last lines on standard {}:", is_error ? "error" : "output"));
  for (const std::string& line : lines) say("  " + line);
}

}  // namespace hvd
