// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/supervisor.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "launcher/console/exit_code.h"
#include "launcher/run/end_order.h"
#include "launcher/run/ending.h"
#include "launcher/run/handled_signals.h"
#include "launcher/run/keeper.h"
#include "launcher/run/output_files.h"
#include "launcher/run/process_tree.h"
#include "launcher/run/srun_report.h"

namespace hvd {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} * 1024;
constexpr std::chrono::seconds kKeeperLimit{15};
constexpr std::uint64_t kSignals = ~0ULL;
constexpr std::uint64_t kKeeper = ~0ULL - 1;

Deadline earlier(Deadline a, Deadline b) {
  if (a.is_forever() || b.is_forever()) return a.is_forever() ? b : a;
  return a.time() < b.time() ? a : b;
}

/// One output stream of one rank.
struct Stream {
  UniqueFd pipe;
  int target = STDOUT_FILENO;
  int rank = kNoRank;
  std::string_view suffix;  ///< Of its file: "out" or "err".
  OutputLines lines;
};

/// The loop of `hvdrun`: one epoll over the ranks' pipes, the keeper's socket and our signals.
class Supervisor {
 public:
  Supervisor(const std::vector<Command>& commands, const SupervisorOptions& options,
             LossPipe* losses)
      : commands_(commands),
        options_(options),
        losses_(losses),
        ending_(options.grace),
        files_(options.output_dir) {}

  Result<int> run() {
    HVD_TRY(files_.make_folder());
    HVD_TRY(watch_signals());
    HVD_TRY(start());
    running_ = commands_.size();
    while (running_ > 0) HVD_TRY(wait_and_serve());
    end_keeper();
    for (std::size_t i = 0; i < streams_.size(); ++i) drain(i);
    if (is_buried_) say(format_text("the cause, as said above: {}", first_failure_));
    return output_lost_ && ending_.exit_code() == 0 ? exit_code_of_signal(SIGPIPE)
                                                    : ending_.exit_code();
  }

 private:
  Status watch_signals() {
    const sigset_t signals = block_handled_signals();
    (void)std::signal(SIGPIPE, SIG_IGN);
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);  // When the keeper is killed, its orphans are ours.
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!epoll_.is_open() || !signals_.is_open()) return Status::system("epoll, signalfd", errno);
    return watch(signals_.get(), kSignals);
  }

  Status watch(int fd, std::uint64_t what) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = what;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return Status::ok();
    return Status::system("epoll_ctl", errno);
  }

  Status start() {
    std::vector<RankStreams> theirs(commands_.size());
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (!commands_[i].takes_stdin)
        theirs[i].input.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      HVD_TRY(add_stream(commands_[i], "out", STDOUT_FILENO, theirs[i].output));
      HVD_TRY(add_stream(commands_[i], "err", STDERR_FILENO, theirs[i].error));
    }
    HVD_TRY_ASSIGN(Keeper keeper, Keeper::start(commands_, std::move(theirs), options_.marker));
    keeper_.emplace(std::move(keeper));
    if (losses_ != nullptr) losses_->close_writer();
    return watch(keeper_->socket(), kKeeper);
  }

  Status add_stream(const Command& command, std::string_view suffix, int target, UniqueFd& writer) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe", errno);
    writer.reset(ends[1]);
    const int rank = command.rank.value_or(kNoRank);
    Stream stream{UniqueFd(ends[0]), target, rank, suffix, OutputLines(rank, options_.style)};
    (void)::fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK);
    if (command.rank) HVD_TRY(files_.open(rank, suffix));
    HVD_TRY(watch(stream.pipe.get(), streams_.size()));
    streams_.push_back(std::move(stream));
    return Status::ok();
  }

  Status wait_and_serve() {
    std::array<epoll_event, 32> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   next_deadline().poll_timeout_ms());
    if (count < 0 && errno != EINTR) return Status::system("epoll_wait", errno);
    bool keeper_spoke = false;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
      if (what == kSignals) serve_signals();
      if (what == kKeeper) keeper_spoke = true;
      if (what < streams_.size()) read_stream(what);
    }
    if (keeper_spoke) serve_keeper();
    report_task_failure();
    for (const RankEnded& ended : ends_.take(Clock::now())) rank_ended(ended);
    if (const auto signal = ending_.advance(Clock::now())) {
      if (options_.verbose) say(format_text("sending signal {} to the ranks that remain", *signal));
      send(*signal);
    }
    return Status::ok();
  }

  Deadline next_deadline() const {
    return earlier(ending_.next(), earlier(ends_.next(), task_failures_.next()));
  }

  /// One read; false when there is nothing more for now.
  bool read_stream(std::size_t index) {
    Stream& stream = streams_[index];
    if (!stream.pipe.is_open()) return false;
    std::array<char, kReadBytes> buffer;
    const ssize_t got = ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (got < 0) return errno == EINTR;
    if (got == 0) {
      put(stream, stream.lines.finish());
      // The keeper's copy of the pipe would keep it in the epoll set.
      (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stream.pipe.get(), nullptr);
      stream.pipe.reset();
      return false;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (stream.rank != kNoRank) files_.add(stream.rank, stream.suffix, bytes);
    put(stream, stream.lines.feed(bytes));
    for (const TaskLine& line : stream.lines.take_task_lines()) {
      files_.add(line.rank, stream.suffix, line.text);
    }
    for (const std::string& notice : stream.lines.take_notices()) serve_notice(notice);
    return true;
  }

  void drain(std::size_t index) {
    while (read_stream(index)) {
    }
  }

  /// Nobody reads our output any more (`hvdrun ... | head`): end as a filter does.
  void put(const Stream& stream, const std::string& text) {
    is_buried_ = is_buried_ || (!first_failure_.empty() && !text.empty());
    if (output_lost_ || write_all(stream.target, text)) return;
    output_lost_ = true;
    send(ending_.told_to_end(SIGTERM, Clock::now()));
  }

  void serve_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGUSR1 || signal == SIGUSR2) {
        send(signal);
        continue;
      }
      end_task_failures();  // what has failed before is the cause, not the signal
      const int handed_on = ending_.told_to_end(signal, Clock::now());
      if (handed_on != SIGKILL) {
        say(format_text("got {}: the ranks have {} s to end; once more kills them at once",
                        describe_end(signal), options_.grace.count() / 1000));
      }
      send(handed_on);
    }
  }

  void serve_keeper() {
    std::vector<RankEnded> ended;
    const bool alive = keeper_->receive(ended);
    // What a rank said before its end is there to read by now.
    if (losses_ != nullptr) {
      for (const LossPipe::Loss& loss : losses_->read()) {
        const bool is_rank = loss.by >= 0 && static_cast<std::size_t>(loss.by) < commands_.size();
        if (is_rank) ends_.loses(loss.by, loss.lost);
      }
    }
    for (const RankEnded& report : ended) ends_.ended(report, Clock::now());
    if (!alive && running_ > 0) keeper_lost();
  }

  void rank_ended(const RankEnded& ended) {
    --running_;
    const auto index = static_cast<std::size_t>(ended.index);
    drain(2 * index);
    drain(2 * index + 1);
    end_task_failures();
    const int code = exit_code_of(ended.status);
    if (code == 0 || !ending_.rank_failed(code, Clock::now())) return;
    const Command& command = commands_[index];
    if (command.rank) {
      report_first_failure(index, *command.rank, command.host, describe_end(ended.status));
    } else {
      say(format_text("{} on {} failed: {}", describe_command(command), command.host,
                      describe_end(ended.status)));
    }
  }

  /// What srun, or the hvdrun in its task 0, says to us.
  void serve_notice(const std::string& notice) {
    if (notice.starts_with(kStepLine)) {
      step_ = notice.substr(kStepLine.size());
      return;
    }
    if (const auto failure = parse_task_failure(notice))
      task_failures_.told(*failure, Clock::now());
  }

  void end_task_failures() {
    task_failures_.end();
    report_task_failure();
  }

  void report_task_failure() {
    const auto failure = task_failures_.take(Clock::now());
    if (!failure || !ending_.rank_failed(failure->exit_code, Clock::now())) return;
    drain(0);
    report_first_failure(0, failure->rank, failure->host, failure->what);
  }

  void report_first_failure(std::size_t index, int rank, const std::string& host,
                            const std::string& what) {
    say(format_text("rank {} on host {} failed first: {}", rank, host, what));
    first_failure_ = format_text("rank {} on host {}, {}", rank, host, what);
    const std::deque<std::string>* lines = &streams_[2 * index + 1].lines.last_lines(rank);
    const bool has_errors = !lines->empty();
    if (!has_errors) lines = &streams_[2 * index].lines.last_lines(rank);
    if (!lines->empty()) {
      say(format_text("its last lines on standard {}:", has_errors ? "error" : "output"));
      for (const std::string& line : *lines) say("  " + line);
    }
    if (running_ > 0) {
      say(format_text("the other ranks have {} s to end by themselves",
                      options_.grace.count() / 1000));
    }
  }

  /// Somebody killed the keeper: its children are ours now, and nobody reports their ends.
  void keeper_lost() {
    say("the keeper process of this job was killed: ending the job");
    (void)ending_.rank_failed(exit_code_of_signal(SIGKILL), Clock::now());
    kill_job_processes(options_.marker, Deadline::after(kKeeperLimit));
    running_ = 0;
  }

  void end_keeper() {
    keeper_->release();
    // It limits itself: see kSweepLimit there.
    while (::waitpid(keeper_->pid(), nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void send(int signal) {
    if (!keeper_) return;
    if (!options_.style.from_srun) {
      keeper_->send_signal(signal);
      return;
    }
    // SIGTERM makes srun kill the tasks at once; a step gets other signals through Slurm.
    if (signal == SIGKILL || step_.empty()) {
      keeper_->send_signal(SIGTERM);
      return;
    }
    std::vector<std::string> arguments{"scancel", format_text("--signal={}", signal), step_};
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t pid = 0;
    if (::posix_spawnp(&pid, "scancel", nullptr, nullptr, pointers.data(), environ) != 0) {
      keeper_->send_signal(SIGTERM);
    }
  }

  static void say(const std::string& text) {
    (void)write_all(STDERR_FILENO, "hvdrun: " + text + "\n");
  }

  const std::vector<Command>& commands_;
  const SupervisorOptions& options_;
  LossPipe* losses_;  ///< May be null: srun's tasks are no children of ours.
  EndOrder ends_;
  TaskFailureOrder task_failures_;
  Ending ending_;
  OutputFiles files_;
  UniqueFd epoll_;
  UniqueFd signals_;
  std::vector<Stream> streams_;  ///< Two by command: output, error.
  std::optional<Keeper> keeper_;
  std::size_t running_ = 0;
  std::string first_failure_;  ///< As told to the user; empty: none.
  bool is_buried_ = false;     ///< Other ranks wrote after it was told.
  std::string step_;           ///< "JOB.STEP" of our srun; empty: not known (yet).
  bool output_lost_ = false;
};

}  // namespace

Result<int> supervise(const std::vector<Command>& commands, const SupervisorOptions& options,
                      LossPipe* losses) {
  return Supervisor(commands, options, losses).run();
}

}  // namespace hvd
