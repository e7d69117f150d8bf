// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/keeper.h"

#include <fcntl.h>
#include <sys/epoll.h>
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

#include "launcher/console/exit_code.h"
#include "launcher/run/exec.h"
#include "launcher/run/process_tree.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kSweepLimit{10};
constexpr int kFirstUncertainFd = 4096;

constexpr std::uint64_t kSocket = ~0ULL;
constexpr std::uint64_t kChildren = ~0ULL - 1;

/// One rank that may still run.
struct Rank {
  pid_t pid = -1;    ///< -1: ended and reaped, or never started.
  UniqueFd process;  ///< Its pidfd; closed: the kernel has none.
};

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
    for (bool goes_on = watch(); goes_on;) goes_on = serve();
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
      ranks_.push_back({pid, UniqueFd(pid > 0 ? open_process(pid) : -1)});
      if (pid < 0) report(i, W_EXITCODE(kExitNotExecutable, 0));
    }
  }

  /// A pipe held open here would keep its other end from seeing hvdrun's death.
  void detach_streams() {
    const auto is_ours = [&](int fd) {
      return fd == socket_.get() || fd == child_signals_.get() ||
             std::any_of(ranks_.begin(), ranks_.end(),
                         [&](const Rank& rank) { return rank.process.get() == fd; });
    };
    for (int fd = STDERR_FILENO + 1; fd < kFirstUncertainFd; ++fd) {
      if (!is_ours(fd)) (void)::close(fd);
    }
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      (void)::dup2(null.get(), fd);
    }
  }

  /// Watches hvdrun, our children and each rank. epoll hands events out in the order in which they
  /// came to be, so it tells which of several dead ranks died first, however late we look.
  bool watch() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    bool is_watched = watch(socket_.get(), kSocket) && watch(child_signals_.get(), kChildren);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].process.is_open()) continue;
      is_watched = watch(ranks_[i].process.get(), i) && is_watched;
    }
    return is_watched;
  }

  bool watch(int fd, std::uint64_t what) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = what;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  bool serve() {
    std::array<epoll_event, 64> events{};
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0) return errno == EINTR;
    bool goes_on = true;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
      if (what < ranks_.size()) rank_ended(what);
      if (what == kSocket) goes_on = hand_on_signal();
    }
    reap();
    return goes_on;
  }

  bool hand_on_signal() {
    int signal = 0;
    const ssize_t got = ::recv(socket_.get(), &signal, sizeof signal, 0);
    if (got != static_cast<ssize_t>(sizeof signal)) return got < 0 && errno == EINTR;
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) (void)::kill(rank.pid, signal);
    }
    return true;
  }

  void rank_ended(std::size_t index) {
    Rank& rank = ranks_[index];
    int status = 0;
    if (rank.pid <= 0 || ::waitpid(rank.pid, &status, WNOHANG) <= 0) return;
    // A rank that has not become its program yet holds a copy of the pidfd: closing ours alone
    // would leave it in the epoll set.
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.process.get(), nullptr);
    rank = {};  // Reaped: its number may be another process's from here on.
    report(index, status);
  }

  /// Orphans of the ranks, and ranks on a kernel without pidfds. A rank that has one is left to
  /// epoll, which comes back to it at once.
  void reap() {
    signalfd_siginfo ignored;
    while (::read(child_signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    while (true) {
      siginfo_t ended{};
      if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
      const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                     [&](const Rank& r) { return r.pid == ended.si_pid; });
      if (rank != ranks_.end() && rank->process.is_open()) return;
      int status = 0;
      (void)::waitpid(ended.si_pid, &status, WNOHANG);
      if (rank == ranks_.end()) continue;
      *rank = {};
      report(static_cast<std::size_t>(rank - ranks_.begin()), status);
    }
  }

  void report(std::size_t index, int status) {
    const RankEnded ended{static_cast<int>(index), status};
    (void)::send(socket_.get(), &ended, sizeof ended, MSG_NOSIGNAL);
  }

  UniqueFd socket_;
  UniqueFd child_signals_;
  const std::vector<Command>& commands_;
  std::string marker_;
  UniqueFd epoll_;
  std::vector<Rank> ranks_;  ///< By command.
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
