// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "launcher/run/exec.h"
#include "launcher/run/exit_code.h"
#include "launcher/run/process_tree.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kSweepLimit{10};
constexpr std::chrono::milliseconds kLastThreadLimit{200};
constexpr int kFirstUncertainFd = 4096;

/// The keeper's own life, after the fork.
class KeeperProcess {
 public:
  KeeperProcess(UniqueFd socket, const std::vector<Command>& commands, std::string marker)
      : socket_(std::move(socket)), commands_(commands), marker_(std::move(marker)) {}

  [[noreturn]] void live(std::vector<RankStreams> streams) {
    (void)::setsid();
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)::prctl(PR_SET_NAME, "hvdrun-keeper");
    ignore_signals();
    start_ranks(std::move(streams));
    detach_streams();
    while (serve()) {
    }
    kill_job_processes(marker_, Deadline::after(kSweepLimit));
    ::_exit(0);
  }

 private:
  /// Only hvdrun's end of the socket ends the keeper.
  void ignore_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) {
      (void)std::signal(signal, SIG_IGN);
    }
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    (void)::pthread_sigmask(SIG_BLOCK, &children, nullptr);
    child_signals_.reset(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void start_ranks(std::vector<RankStreams> streams) {
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) become_command(commands_[i], streams[i]);
      pids_.push_back(pid);
      if (pid < 0) report(i, W_EXITCODE(kExitNotExecutable, 0));
    }
  }

  /// A pipe held open here would keep its other end from seeing hvdrun's death.
  void detach_streams() {
    for (int fd = STDERR_FILENO + 1; fd < kFirstUncertainFd; ++fd) {
      if (fd != socket_.get() && fd != child_signals_.get()) (void)::close(fd);
    }

    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      (void)::dup2(null.get(), fd);
    }
  }

  bool serve() {
    std::array<pollfd, 2> wait{{{socket_.get(), POLLIN, 0}, {child_signals_.get(), POLLIN, 0}}};
    if (::poll(wait.data(), wait.size(), -1) < 0) return errno == EINTR;
    if (wait[1].revents != 0) reap();
    if (wait[0].revents == 0) return true;
    int signal = 0;
    const ssize_t got = ::recv(socket_.get(), &signal, sizeof signal, 0);
    if (got != static_cast<ssize_t>(sizeof signal)) return got < 0 && errno == EINTR;
    for (const pid_t pid : pids_) {
      if (pid > 0) (void)::kill(pid, signal);
    }
    return true;
  }

  void reap() {
    signalfd_siginfo ignored;
    while (::read(child_signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = std::find(pids_.begin(), pids_.end(), pid);
      if (found == pids_.end()) continue;
      *found = -1;  // Reaped: its number may be another process's from here on.
      if (status != 0) report_who_went_before();
      report(static_cast<std::size_t>(found - pids_.begin()), status);
    }
  }

  /// waitpid knows an end only when the last thread is gone; a rank that hears of it by a closed
  /// socket may end before that. So those whose main thread is gone already come first.
  void report_who_went_before() {
    const Deadline deadline = Deadline::after(kLastThreadLimit);
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      if (pids_[i] <= 0 || !is_zombie(pids_[i])) continue;
      wait_for_end(pids_[i], deadline);
      int status = 0;
      if (::waitpid(pids_[i], &status, WNOHANG) > 0) report(i, status);
    }
  }

  void report(std::size_t index, int status) {
    pids_[index] = -1;
    const RankEnded ended{static_cast<int>(index), status};
    (void)::send(socket_.get(), &ended, sizeof ended, MSG_NOSIGNAL);
  }

  UniqueFd socket_;
  UniqueFd child_signals_;
  const std::vector<Command>& commands_;
  std::string marker_;
  std::vector<pid_t> pids_;  ///< By command; -1 when ended and reaped.
};

}  // namespace

Result<Keeper> Keeper::start(const std::vector<Command>& commands, std::vector<RankStreams> streams,
                             const std::string& marker) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Status::system("socketpair", errno);
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return Status::system("fork of the keeper", errno);
  if (pid == 0) {
    ours.reset();
    KeeperProcess(std::move(theirs), commands, marker).live(std::move(streams));
  }
  return Keeper(pid, std::move(ours));
}

bool Keeper::receive(std::vector<RankEnded>& ended) {
  while (true) {
    RankEnded report;
    const ssize_t got = ::recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof report)) {
      ended.push_back(report);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && errno == EAGAIN;
  }
}

void Keeper::send_signal(int signal) {
  (void)::send(socket_.get(), &signal, sizeof signal, MSG_NOSIGNAL);
}

}  // namespace hvd
