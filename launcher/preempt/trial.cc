// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "launcher/console/exit_code.h"
#include "launcher/run/job_events.h"
#include "launcher/run/process_table.h"
#include "launcher/run/process_tree.h"
#include "launcher/run/run_command.h"
#include "launcher/run/step_signal.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kSweepTime{15};
constexpr std::chrono::seconds kStepTime{30};   ///< For Slurm to end a step.
constexpr std::chrono::seconds kUrgeAgain{2};   ///< Within 1 s hvdrun takes two for one.
constexpr std::chrono::seconds kLeaveTime{60};  ///< For hvdrun, after an interrupt.
constexpr std::array<int, 3> kInterrupts{SIGINT, SIGTERM, SIGHUP};

sigset_t interrupt_set() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kInterrupts) ::sigaddset(&signals, signal);
  return signals;
}

/// The child's life: hvdrun, with the ranks' output on standard error and nothing to read.
[[noreturn]] void become_hvdrun(const RunOptions& run, int events, pid_t parent,
                                const sigset_t& mask) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kExitFailure);
  (void)::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  (void)::dup2(null.get(), STDIN_FILENO);
  (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
  const int code = run_program(run, JobNodes(), JobEvents(events));
  (void)std::fflush(nullptr);
  ::_exit(code);
}

class TrialRun {
 public:
  explicit TrialRun(const TrialPlan& plan) : plan_(plan) {}

  Result<Trial> run() {
    HVD_TRY(start());
    await_start();
    const bool has_begun = trial_.started.has_value() || !trial_.is_by_srun;
    if (has_begun && is_running()) {
      wait_until(Deadline::at(started_at_ + plan_.after), false);
    }
    if (has_begun && is_running()) send_signal();
    if (is_running()) {
      trial_.was_killed = true;
      end_job();
    }
    finish();
    return trial_;
  }

 private:
  bool is_running() const { return !has_ended_ && trial_.interrupt == 0; }

  Status start() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe", errno);
    events_.reset(ends[0]);
    UniqueFd writer(ends[1]);
    (void)::fcntl(events_.get(), F_SETFL, O_NONBLOCK);
    const sigset_t signals = interrupt_set();
    (void)::pthread_sigmask(SIG_BLOCK, &signals, &mask_);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    (void)std::fflush(nullptr);
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) return Status::system("fork of hvdrun", errno);
    if (child_ == 0) {
      events_.reset();
      signals_.reset();
      become_hvdrun(plan_.run, writer.release(), parent, mask_);
    }
    start_ = Clock::now();
    return Status::ok();
  }

  void await_start() {
    started_at_ = start_;
    wait_until(Deadline::at(start_ + plan_.start_limit), true);
    if (trial_.started) started_at_ = start_ + to_clock(*trial_.started);
  }

  void send_signal() {
    plan_.before_signal();
    if (!trial_.is_by_srun) trial_.handles = has_handler();
    signalled_at_ = Clock::now();
    trial_.signalled = signalled_at_ - start_;
    trial_.signalled_at_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
    if (plan_.signal == SIGKILL) {
      kill_all();
      return;
    }
    (void)::kill(child_, plan_.signal);
    wait_until(Deadline::at(signalled_at_ + plan_.grace), false);
  }

  /// As a node that fails: nobody is told.
  void kill_all() {
    if (!trial_.is_by_srun) return kill_here();
    (void)signal_steps({step_}, SIGKILL);
    wait_until(Deadline::after(kStepTime), false);
  }

  void kill_here() {
    (void)::kill(child_, SIGKILL);
    kill_job_processes({}, Deadline::after(kSweepTime));  // The keeper and the ranks are ours now.
    note_end();
  }

  /// What has not ended by itself.
  void end_job() {
    if (!trial_.is_by_srun) return kill_here();
    for (const auto& patience : {kUrgeAgain, kStepTime}) {
      (void)::kill(child_, SIGTERM);
      wait_until(Deadline::after(patience), false);
      if (!is_running()) return;
    }
    kill_here();
  }

  /// Waits for the child where it was interrupted, and sweeps.
  void finish() {
    const Deadline leave = Deadline::after(kLeaveTime);
    while (!has_ended_ && !leave.has_passed()) wait_once(leave);
    if (!has_ended_) kill_here();
    serve_interrupts();
    int status = 0;
    const bool is_reaped = ::waitpid(child_, &status, 0) == child_;
    trial_.exit_code = is_reaped ? exit_code_of(status) : exit_code_of_signal(SIGKILL);
    kill_job_processes({}, Deadline::after(kSweepTime));
    const Clock::time_point base = trial_.signalled ? signalled_at_ : start_;
    const bool saw_all = static_cast<int>(trial_.statuses.size()) == trial_.processes;
    trial_.end = (saw_all && trial_.processes > 0 ? last_end_ : ended_at_) - base;
    if (trial_.is_by_srun) trial_.statuses.clear();
    (void)::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  /// Until the deadline, the end of the child, an interrupt or, where that is asked for, the start.
  void wait_until(Deadline deadline, bool for_start) {
    while (is_running() && !(for_start && trial_.started) && !deadline.has_passed()) {
      wait_once(deadline);
    }
  }

  void wait_once(Deadline deadline) {
    std::array<pollfd, 2> waits{{{events_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    (void)::poll(waits.data(), waits.size(), deadline.poll_timeout_ms());
    if (waits[1].revents != 0) serve_interrupts();
    if (waits[0].revents != 0) serve_events();
  }

  void serve_interrupts() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (trial_.interrupt == 0) trial_.interrupt = signal;
      // From a terminal the child has got it as well.
      if (info.ssi_code != SI_KERNEL) (void)::kill(child_, signal);
    }
  }

  void serve_events() {
    while (true) {
      JobEvent event;
      const ssize_t got = ::read(events_.get(), &event, sizeof event);
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) note_end();
      if (got != static_cast<ssize_t>(sizeof event)) return;
      take(event);
    }
  }

  void take(const JobEvent& event) {
    switch (event.kind) {
      case JobEvent::Kind::kLaunched:
        trial_.processes = event.index;
        trial_.is_by_srun = event.value != 0;
        break;
      case JobEvent::Kind::kStarted:
        trial_.started = Clock::now() - start_;
        step_ = event.text_view();
        break;
      case JobEvent::Kind::kEnded:
        trial_.statuses[event.index] = event.value;
        last_end_ = Clock::now();
        break;
      case JobEvent::Kind::kLeft:
        trial_.left = event.index;
        trial_.left_command = event.text_view();
        break;
    }
  }

  void note_end() {
    if (!has_ended_) ended_at_ = Clock::now();
    has_ended_ = true;
  }

  /// Of the ranks and what is below them: hvdrun's only child is their keeper.
  bool has_handler() const {
    const ProcessTable processes = read_processes();
    const std::vector<pid_t> below = descendants(processes, child_);
    return std::any_of(below.begin(), below.end(), [&](pid_t pid) {
      return processes.at(pid).parent != child_ && nature_of(pid, plan_.signal).catches;
    });
  }

  static Clock::duration to_clock(SecondsSeen seconds) {
    return std::chrono::duration_cast<Clock::duration>(seconds);
  }

  const TrialPlan& plan_;
  Trial trial_;
  UniqueFd events_;
  UniqueFd signals_;
  sigset_t mask_{};
  pid_t child_ = -1;
  std::string step_;  ///< "JOB.STEP" of an srun.
  Clock::time_point start_;
  Clock::time_point started_at_;
  Clock::time_point signalled_at_;
  Clock::time_point last_end_;
  Clock::time_point ended_at_;
  bool has_ended_ = false;
};

}  // namespace

Result<Trial> run_trial(const TrialPlan& plan) { return TrialRun(plan).run(); }

}  // namespace hvd
