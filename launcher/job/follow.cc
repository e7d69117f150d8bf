// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/follow.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "launcher/cluster/job_status.h"
#include "launcher/cluster/read_cluster.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/job/growing_file.h"
#include "launcher/job/pace.h"
#include "launcher/run/capture.h"
#include "launcher/run/output_lines.h"
#include "launcher/run/output_printer.h"
#include "launcher/run/output_sink.h"
#include "launcher/run/terminal.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kAnswerLimit{60};    ///< For one squeue or scontrol.
constexpr seconds kSilenceLimit{600};  ///< Of the controller, until following is given up.
constexpr milliseconds kQuiet{1000};   ///< After output, a sign that the job may have ended.
constexpr seconds kLeastGap{10};       ///< Between two looks for that reason alone.

/// One job, or one entry of an array.
struct Followed {
  explicit Followed(const JobStatus& status)
      : file(status.output),
        lines(status.array_entry,
              {.prefix = status.array_entry >= 0, .timestamp = false, .from_srun = false}) {}

  JobStatus status;
  std::string said;
  GrowingFile file;
  OutputLines lines;
};

constexpr std::size_t kMostAtOnce = std::size_t{256} * 1024;  ///< Of one file's new output.
constexpr milliseconds kLateOutput{300};  ///< Shows a moment later on a network file system.
constexpr milliseconds kLastWords{1000};  ///< For a message before we leave, where nobody reads.
constexpr std::array<int, 3> kEndings{SIGINT, SIGTERM, SIGHUP};

class Follower {
 public:
  Follower(std::string job, const Environment& environment)
      : job_(std::move(job)), environment_(environment) {}

  Result<int> run() {
    Result<int> code = follow();
    if (!code.is_ok()) flush();
    return code;
  }

 private:
  Result<int> follow() {
    HVD_TRY(watch_signals());
    while (true) {
      if (next_status_.has_passed()) HVD_TRY(look_at_queue());
      look_at_output();
      if (all_ended()) return finish();
      if (wait(next_status_.earlier(Deadline::after(output_pace_.next())))) return leave();
    }
  }

  Status watch_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : kEndings) ::sigaddset(&signals, signal);
    (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.is_open()) return Status::system("signalfd", errno);
    wake_->reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return wake_->is_open() ? Status::ok() : Status::system("eventfd", errno);
  }

  /// Until then, or until there is more to show; true: a signal came.
  bool wait(Deadline until) {
    const bool can_go_on = has_more_ && !output_.is_full();
    std::array<pollfd, 2> waits{{{signals_.get(), POLLIN, 0}, {wake_->get(), POLLIN, 0}}};
    (void)::poll(waits.data(), waits.size(), can_go_on ? 0 : until.poll_timeout_ms());
    eventfd_t count = 0;
    (void)::eventfd_read(wake_->get(), &count);
    see_failures();
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      signal_ = static_cast<int>(info.ssi_signo);
    }
    return signal_ != 0;
  }

  /// What cannot be written (a full disk) is said once, and the job followed on.
  void see_failures() {
    for (OutputSink* sink : {&output_, &errors_}) {
      const OutputSink::Failure failure = sink->take_failure();
      if (failure.error_number == 0 || std::exchange(has_failed_, true)) continue;
      say_line(format_text("standard {} cannot be written: {}; what is not written is lost",
                           failure.target == standard_error_ ? "error" : "output",
                           std::generic_category().message(failure.error_number)));
    }
  }

  /// A signal ends the following; output that nobody reads is left.
  int leave() {
    say_line(
        format_text("job {0} goes on: 'squeue --jobs={0}' shows it, 'scancel {0}' ends it", job_));
    const int signal = std::exchange(signal_, 0);
    has_more_ = false;
    const Deadline limit = Deadline::after(kLastWords);
    while ((!errors_.is_empty() || !output_.is_empty()) && !limit.has_passed() && !wait(limit)) {
    }
    return exit_code_of_signal(signal);
  }

  void say_line(const std::string& text) {
    OutputSink& sink = is_one_place_ ? output_ : errors_;
    sink.add(standard_error_, message_text(text, wants_color(STDERR_FILENO, environment_)));
  }

  void show(const Followed& job, const std::vector<OutputLine>& lines) {
    if (job.status.array_entry >= 0) {
      output_.add(standard_output_, printer_.print(job.status.array_entry, lines, Clock::now()));
      return;
    }
    for (const OutputLine& line : lines) output_.add(standard_output_, line.text);
  }

  Status look_at_queue() {
    const auto answer =
        read_live_job(job_, environment_, Deadline::after(kAnswerLimit), signals_.get());
    if (!answer.is_ok()) return bear_silence(answer.status());
    silent_since_.reset();
    last_status_ = Clock::now();
    const std::vector<JobStatus> all = parse_job_status(answer.value());
    bool changed = forget_started(all);
    for (const JobStatus& status : all) changed |= update(status);
    if (changed) status_pace_.restart();
    next_status_ = Deadline::after(status_pace_.next());
    output_since_status_ = false;
    return Status::ok();
  }

  /// Entries of an array that wait are one status, "12_3-9", which goes or shrinks as they start.
  bool forget_started(const std::vector<JobStatus>& all) {
    return std::erase_if(jobs_, [&](const auto& job) {
             const bool waits = job.second.status.is_pending() && job.second.status.array_entry < 0;
             return waits && std::none_of(all.begin(), all.end(), [&](const JobStatus& status) {
                      return status.id == job.first;
                    });
           }) > 0;
  }

  /// A controller that does not answer is asked again, for a while.
  Status bear_silence(const Status& failure) {
    const bool forgotten = failure.message().find("Invalid job id") != std::string::npos;
    if (forgotten) {
      return error(Code::kSystem, "Slurm no longer knows job {}: 'sacct --jobs={}' may", job_,
                   job_);
    }
    if (failure.code() == Code::kUnsupported) return failure;
    pollfd told{signals_.get(), POLLIN, 0};
    if (::poll(&told, 1, 0) > 0) return Status::ok();  // That is why it did not answer.
    if (!silent_since_) {
      silent_since_ = Clock::now();
      say_line(failure.message() + "; asking again");
    }
    if (Clock::now() - *silent_since_ > kSilenceLimit) return failure;
    next_status_ = Deadline::after(status_pace_.next());
    return Status::ok();
  }

  /// Takes a new status; says it where it tells something new.
  bool update(const JobStatus& status) {
    const auto [entry, is_new] = jobs_.try_emplace(status.id, status);
    Followed& followed = entry->second;
    if (followed.file.path() != status.output) followed.file = GrowingFile(status.output);
    const std::string place = status.is_pending() ? place_of(status) : "";
    followed.status = status;
    JobStatus timeless = status;  // the expected start changes all the time
    timeless.start.clear();
    const std::string news = describe_job(timeless, place);
    if (news == followed.said) return false;
    followed.said = news;
    if (!status.has_ended()) say_line(describe_job(status, place));
    return true;
  }

  std::string place_of(const JobStatus& status) {
    const std::vector<std::string> words{"squeue",
                                         "--noheader",
                                         "--states=PENDING",
                                         "--sort=-p,i",
                                         "--format=%i",
                                         "--all",
                                         "--partition=" + status.partition};
    const auto queue =
        capture_output(words, environment_, Deadline::after(kAnswerLimit), signals_.get());
    return queue.is_ok() ? queue_place(queue.value(), status.id) : "";
  }

  /// Shows what is new, a piece of each file in turn, as fast as it is read from us.
  void look_at_output() {
    bool grew = false;
    has_more_ = output_.is_full();
    if (has_more_) return;
    for (auto& [id, followed] : jobs_) {
      const std::string text = followed.file.read_new(kMostAtOnce);
      if (text.empty()) continue;
      grew = true;
      has_more_ = has_more_ || text.size() == kMostAtOnce;
      show(followed, followed.lines.feed(text));
    }
    if (grew) {
      output_pace_.restart();
      last_output_ = Clock::now();
      output_since_status_ = true;
    } else if (output_since_status_ && Clock::now() - last_output_ > kQuiet) {
      output_since_status_ = false;
      next_status_ = next_status_.earlier(Deadline::at(last_status_ + kLeastGap));
    }
  }

  bool all_ended() const {
    return !jobs_.empty() && std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
      return job.second.status.has_ended();
    });
  }

  int finish() {
    for (bool was_late = false; has_more_ || !was_late;) {
      was_late = !has_more_;
      if (wait(was_late ? Deadline::after(kLateOutput) : kForever)) break;
      look_at_output();
    }
    int code = 0;
    for (auto& [id, followed] : jobs_) {
      show(followed, followed.lines.finish());
      if (!followed.status.has_ended()) continue;
      say_line(describe_job(followed.status, ""));
      code = std::max(code, followed.status.shell_code());
    }
    flush();
    if (signal_ != 0) return exit_code_of_signal(signal_);
    return code == 0 && has_failed_ ? kExitFailure : code;
  }

  /// Waits until all is written, or a signal comes.
  void flush() {
    has_more_ = false;
    output_.close(standard_output_);
    (is_one_place_ ? output_ : errors_).close(standard_error_);
    while (signal_ == 0 && (!output_.is_done() || !errors_.is_done())) (void)wait(kForever);
  }

  std::string job_;
  const Environment& environment_;
  UniqueFd signals_;
  int signal_ = 0;  ///< That told us to leave; 0: none.
  std::shared_ptr<UniqueFd> wake_ = std::make_shared<UniqueFd>();  ///< Of the sinks.
  std::shared_ptr<SinkTarget> standard_output_ = std::make_shared<SinkTarget>(STDOUT_FILENO);
  std::shared_ptr<SinkTarget> standard_error_ = std::make_shared<SinkTarget>(STDERR_FILENO);
  OutputSink output_{wake_};
  OutputSink errors_{wake_};
  const bool is_one_place_ = is_one_place();
  bool has_failed_ = false;  ///< Something was not written.
  OutputPrinter printer_{{}};
  bool has_more_ = false;  ///< Of the files, to be shown at once.
  std::map<std::string, Followed> jobs_;
  Pace status_pace_{seconds(1), seconds(30)};
  Pace output_pace_{milliseconds(200), seconds(2)};
  Deadline next_status_ = Deadline::after(milliseconds(0));
  std::optional<Clock::time_point> silent_since_;
  Clock::time_point last_output_{};
  Clock::time_point last_status_{};
  bool output_since_status_ = false;
};

}  // namespace

Result<int> follow_job(const std::string& job, const Environment& environment) {
  return Follower(job, environment).run();
}

}  // namespace hvd
