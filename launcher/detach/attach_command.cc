// SPDX-License-Identifier: Apache-2.0
#include "launcher/detach/attach_command.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "base/format.h"
#include "base/process_state.h"
#include "base/unique_fd.h"
#include "base/write_all.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/detach/detached_job.h"
#include "launcher/job/growing_file.h"
#include "launcher/run/process_table.h"

namespace hvd {
namespace {

constexpr std::int64_t kShownBefore = 16384;  ///< Bytes of what was written before.
constexpr std::size_t kMostShown = 65536;
constexpr std::chrono::milliseconds kLookEach{100};

Result<std::vector<DetachedJob>> read_all_jobs() {
  HVD_TRY_ASSIGN(const std::string jobs, detached_jobs_folder(Environment::of_process()));
  return read_detached_jobs(jobs);
}

Result<DetachedJob> find_job(int number) {
  HVD_TRY_ASSIGN(const auto jobs, read_all_jobs());
  const auto found = std::find_if(jobs.begin(), jobs.end(),
                                  [&](const DetachedJob& job) { return job.number == number; });
  if (found != jobs.end()) return *found;
  return error(Code::kInvalidArgument,
               "there is no job {} in the background; 'hvdrun attach' lists those that there are",
               number);
}

int list_jobs(bool as_json) {
  const auto jobs = read_all_jobs();
  if (!jobs.is_ok()) {
    print_message(jobs.status().message());
    return kExitFailure;
  }
  if (as_json) return print_answer(jobs_json(jobs.value()));
  if (jobs.value().empty()) {
    print_message("there are no jobs in the background; hvdrun --detach starts one");
    return 0;
  }
  return print_answer(describe_jobs(jobs.value()));
}

/// Tells the hvdrun of the job to end it; no other process.
Status tell_to_end(DetachedJob& job) {
  if (look_at_job(job) == DetachedState::kElsewhere) {
    return error(Code::kInvalidArgument,
                 "job {0} is on host {1}: type 'hvdrun attach {0} --end' there", job.number,
                 job.host);
  }
  const auto process = stat_of(job.pid);
  if (process && process->start == job.start) (void)signal_process(job.pid, *process, SIGTERM);
  return Status::ok();
}

/// Shows one job.
class Watcher {
 public:
  Watcher(DetachedJob job, bool from_the_beginning) : job_(std::move(job)), output_(job_.output()) {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::sigaddset(&signals, signal);
    (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!from_the_beginning) skip_old();
  }

  int watch() {
    while (true) {
      // Before the output is read: all that it wrote before its end is there, then.
      const DetachedState state = look_at_job(job_);
      if (!show_new()) return exit_code_of_signal(SIGPIPE);
      if (state == DetachedState::kEnded || state == DetachedState::kKilled) return finish(state);
      if (const auto signal = wait()) return leave(*signal);
    }
  }

 private:
  void skip_old() {
    struct stat found {};
    if (::stat(output_.path().c_str(), &found) != 0 || found.st_size <= kShownBefore) return;
    output_.skip_to(found.st_size - kShownBefore);
    // From the next whole line on.
    const std::string text = output_.read_new(static_cast<std::size_t>(kShownBefore));
    const std::size_t end = text.find('\n');
    const auto cut = static_cast<std::int64_t>(end == std::string::npos ? 0 : end + 1);
    output_.skip_to(found.st_size - kShownBefore + cut);
    print_message(format_text("the last {} bytes of what job {} wrote; --all shows all",
                              kShownBefore - cut, job_.number));
  }

  /// False: nobody reads what we write.
  bool show_new() {
    while (true) {
      const std::string text = output_.read_new(kMostShown);
      if (text.empty()) return true;
      if (write_all(STDOUT_FILENO, text) != 0) return false;
    }
  }

  int finish(DetachedState state) {
    if (state == DetachedState::kEnded) return *job_.exit_code;
    print_message(format_text("job {} has {}", job_.number, describe_state(job_, state)));
    return kExitFailure;
  }

  /// The signal that came.
  std::optional<int> wait() {
    pollfd waits{signals_.get(), POLLIN, 0};
    (void)::poll(&waits, 1, static_cast<int>(kLookEach.count()));
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {};
    return static_cast<int>(info.ssi_signo);
  }

  int leave(int signal) {
    print_message(format_text("job {0} goes on; 'hvdrun attach {0}' shows it again, --end ends it",
                              job_.number));
    return exit_code_of_signal(signal);
  }

  DetachedJob job_;
  GrowingFile output_;
  UniqueFd signals_;
};

}  // namespace

int run_attach(const AttachOptions& options) {
  if (options.job == 0) return list_jobs(options.json);
  auto job = find_job(options.job);
  Status status = job.status();
  if (status.is_ok() && options.end) status = tell_to_end(job.value());
  if (!status.is_ok()) {
    print_message(status.message());
    return kExitFailure;
  }
  return Watcher(job.value(), options.all).watch();
}

}  // namespace hvd
