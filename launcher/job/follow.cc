// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/follow.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/job/capture.h"
#include "launcher/job/growing_file.h"
#include "launcher/job/job_status.h"
#include "launcher/job/pace.h"
#include "launcher/run/output_lines.h"

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

void say_line(const std::string& text) { print_message(text); }

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

class Follower {
 public:
  Follower(std::string job, const Environment& environment)
      : job_(std::move(job)), environment_(environment) {}

  Result<int> run() {
    HVD_TRY(watch_signals());
    while (true) {
      if (next_status_.has_passed()) HVD_TRY(look_at_queue());
      look_at_output();
      if (all_ended()) return finish();
      if (wait() == Wake::kSignal) {
        say_line(format_text("job {0} goes on: 'squeue --jobs={0}' shows it, 'scancel {0}' ends it",
                             job_));
        return exit_code_of_signal(SIGINT);
      }
    }
  }

 private:
  enum class Wake { kTime, kSignal };

  Status watch_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
    (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals_.is_open() ? Status::ok() : Status::system("signalfd", errno);
  }

  Wake wait() {
    const Deadline wake = next_status_.earlier(Deadline::after(output_pace_.next()));
    pollfd signals{signals_.get(), POLLIN, 0};
    return ::poll(&signals, 1, wake.poll_timeout_ms()) > 0 ? Wake::kSignal : Wake::kTime;
  }

  Result<std::string> ask(const std::vector<std::string>& words) {
    HVD_TRY_ASSIGN(const Captured answer,
                   capture(words, environment_, Deadline::after(kAnswerLimit)));
    if (answer.succeeded()) return answer.output;
    const std::string why = answer.errors.substr(0, answer.errors.find('\n'));
    return error(Code::kSystem, "{}: {}", words.front(), why.empty() ? "no answer" : why);
  }

  Status look_at_queue() {
    const auto answer = ask({"scontrol", "--oneliner", "show", "job", job_});
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
    const auto queue = ask({"squeue", "--noheader", "--states=PENDING", "--sort=-p,i",
                            "--format=%i", "--partition=" + status.partition});
    return queue.is_ok() ? queue_place(queue.value(), status.id) : "";
  }

  void look_at_output() {
    bool grew = false;
    for (auto& [id, followed] : jobs_) {
      const std::string text = followed.file.read_new();
      if (text.empty()) continue;
      grew = true;
      show(followed.lines.feed(text));
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
    look_at_output();
    // What the last node wrote may show a moment later on a network file system.
    pollfd nothing{-1, 0, 0};
    (void)::poll(&nothing, 1, 300);
    look_at_output();
    int code = 0;
    for (auto& [id, followed] : jobs_) {
      show(followed.lines.finish());
      if (!followed.status.has_ended()) continue;
      say_line(describe_job(followed.status, ""));
      code = std::max(code, followed.status.shell_code());
    }
    return code;
  }

  std::string job_;
  const Environment& environment_;
  UniqueFd signals_;
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
