// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/keeper.h"

#include <fcntl.h>
#include <poll.h>
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
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "base/descriptor_limit.h"
#include "launcher/console/exit_code.h"
#include "launcher/run/exec.h"
#include "launcher/run/process_table.h"
#include "launcher/run/process_tree.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kSweepLimit{10};
/// hvdrun has raised its limit to what all ranks need; a limit of a billion is nobody's need.
constexpr std::size_t kFewFds = 4096;
constexpr std::size_t kManyFds = 65536;

constexpr std::uint64_t kSocket = ~0ULL;
constexpr std::uint64_t kChildren = ~0ULL - 1;
constexpr std::uint64_t kBehindShell = ~0ULL - 2;

constexpr std::size_t kOrderStreams = 2;  ///< Of a process that is started again.

/// One order, and the streams that come with it. As recv().
ssize_t receive_order(int socket, KeeperOrder& order, RankStreams& streams) {
  std::array<int, kOrderStreams> fds{-1, -1};
  iovec bytes{&order, sizeof order};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof fds)) {
    std::memcpy(fds.data(), CMSG_DATA(header), sizeof fds);
  }
  streams.output.reset(fds[0]);
  streams.error.reset(fds[1]);
  return got;
}

/// A program behind a shell.
struct Program {
  pid_t pid;
  ProcessStat entry;
  UniqueFd process;  ///< Its pidfd; closed: the kernel has none.
};

/// One rank that may still run.
struct Rank {
  pid_t pid = -1;    ///< -1: ended and reaped, or never started.
  UniqueFd process;  ///< Its pidfd; closed: the kernel has none.
  /// Programs behind a shell that were asked to end: the rank has ended when they have, too.
  std::vector<Program> behind{};
  std::optional<int> status{};  ///< Of the shell, which ended before them.
};

/// The keeper's own life, after the fork.
class KeeperProcess {
 public:
  KeeperProcess(UniqueFd socket, const std::vector<Command>& commands,
                std::vector<std::string> marks)
      : socket_(std::move(socket)), commands_(commands), marks_(std::move(marks)) {}

  [[noreturn]] void live(std::vector<RankStreams> streams, bool own_session) {
    if (own_session) (void)::setsid();
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)::prctl(PR_SET_NAME, "hvdrun-keeper");
    ignore_signals();
    start_ranks(std::move(streams));
    detach_streams();
    for (bool goes_on = watch(); goes_on;) goes_on = serve();
    kill_job_processes(marks_, Deadline::after(kSweepLimit));
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
      if (commands_[i].starts_later) {
        ranks_.emplace_back();
      } else {
        start_rank(streams[i]);
      }
    }
  }

  /// The first that has not been started.
  void start_rank(const RankStreams& streams) {
    const std::size_t index = ranks_.size();
    const pid_t pid = ::fork();
    if (pid == 0) become_command(commands_[index], streams);
    ranks_.push_back({.pid = pid, .process = UniqueFd(pid > 0 ? open_process(pid) : -1)});
    if (pid < 0) report(index, W_EXITCODE(kExitNotExecutable, 0));
  }

  /// A pipe held open here would keep its other end from seeing hvdrun's death.
  void detach_streams() {
    const auto is_ours = [&](int fd) {
      return fd == socket_.get() || fd == child_signals_.get() ||
             std::any_of(ranks_.begin(), ranks_.end(),
                         [&](const Rank& rank) { return rank.process.get() == fd; });
    };
    const std::size_t end = std::clamp(descriptor_limit().soft, kFewFds, kManyFds);
    for (int fd = STDERR_FILENO + 1; fd < static_cast<int>(end); ++fd) {
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
      if (what == kSocket) goes_on = take_order();
    }
    reap();
    forget_ended();
    return goes_on;
  }

  /// False: hvdrun is gone.
  bool take_order() {
    KeeperOrder order;
    RankStreams streams;
    const ssize_t got = receive_order(socket_.get(), order, streams);
    if (got != static_cast<ssize_t>(sizeof order)) return got < 0 && errno == EINTR;
    switch (order.kind) {
      case KeeperOrder::Kind::kSignal:
        hand_on(order.signal);
        break;
      case KeeperOrder::Kind::kKill:
        kill_process(static_cast<std::size_t>(order.index));
        break;
      case KeeperOrder::Kind::kStart:
        start(restarted(commands_[static_cast<std::size_t>(order.index)],
                        static_cast<int>(commands_.size())),
              streams);
        break;
      case KeeperOrder::Kind::kStep:
        start(later_srun(commands_.front(), {order.host.data(), order.tasks, order.first_process}),
              streams);
        break;
    }
    return true;
  }

  void start(Command command, const RankStreams& streams) {
    commands_.push_back(std::move(command));
    start_rank(streams);
    const UniqueFd& process = ranks_.back().process;
    if (process.is_open()) (void)watch(process.get(), ranks_.size() - 1);
  }

  void hand_on(int signal) {
    if (signal == SIGSTOP || signal == SIGCONT) {
      signal_all(signal);
      return;
    }
    const bool asks_for_end = signal != SIGUSR1 && signal != SIGUSR2;
    const auto nature = [&](pid_t pid) { return nature_of(pid, signal); };
    const bool has_shell = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.pid > 0 && nature(rank.pid).is_shell;
    });
    const ProcessTable processes = has_shell ? read_processes() : ProcessTable{};
    for (Rank& rank : ranks_) {
      for (const Program& program : rank.behind) {
        (void)signal_process(program.pid, program.entry, signal);
      }
      if (rank.pid <= 0) continue;
      const bool is_first = rank.behind.empty();
      for (const pid_t pid : signal_targets(processes, rank.pid, asks_for_end, nature)) {
        if (pid == rank.pid) {
          (void)::kill(pid, signal);  // Not reaped yet: the number is its own.
        } else if (is_first) {
          Program program{pid, processes.at(pid), {}};
          program.process = signal_process(pid, program.entry, signal);
          if (!asks_for_end) continue;
          if (program.process.is_open()) (void)watch(program.process.get(), kBehindShell);
          rank.behind.push_back(std::move(program));
        }
      }
    }
  }

  /// Whom it has started may be orphans by now, and are found by its number in the job.
  void kill_process(std::size_t index) {
    const pid_t pid = ranks_[index].pid;
    if (pid > 0) (void)::kill(pid, SIGKILL);  // Not reaped yet: the number is its own.
    // Jobs within the rank have processes of that number, too.
    std::vector<std::string> marks;
    for (const std::string& variable : commands_[index].variables) {
      const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
      if (name == launch_env::kProcess || name == launch_env::kJobMarker) marks.push_back(variable);
    }
    if (marks.size() == 2) kill_marked_below(marks);
  }

  /// Ctrl-Z stops workers and helpers too, as a terminal does; those that are forked meanwhile are
  /// found in the next round.
  static void signal_all(int signal) {
    std::set<pid_t> done;
    for (bool found = true; found;) {
      found = false;
      const ProcessTable processes = read_processes();
      for (const pid_t pid : descendants(processes, ::getpid())) {
        if (!done.insert(pid).second) continue;
        (void)signal_process(pid, processes.at(pid), signal);
        found = true;
      }
    }
  }

  /// A shell dies of SIGTERM at once; its rank ends with the program that saves its work.
  void ended_or_held(std::size_t index, int status) {
    Rank& rank = ranks_[index];
    // A rank that has not become its program yet holds a copy of the pidfd: closing ours alone
    // would leave it in the epoll set.
    if (rank.process.is_open()) unwatch(rank.process);
    rank.pid = -1;  // Reaped: its number may be another process's from here on.
    rank.process.reset();
    rank.status = status;
    forget_ended();
  }

  /// Programs behind shells that have ended, and the ranks that waited for them. Without a pidfd
  /// nothing wakes us for the end of one; but when its shell ends it becomes our child, and then
  /// SIGCHLD does.
  void forget_ended() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      std::erase_if(rank.behind, [&](const Program& program) {
        if (!program.process.is_open()) return !is_alive(program.pid, program.entry);
        pollfd ended{program.process.get(), POLLIN, 0};
        if (::poll(&ended, 1, 0) <= 0) return false;
        unwatch(program.process);
        return true;
      });
      if (!rank.status || !rank.behind.empty()) continue;
      report(i, *rank.status);
      rank.status.reset();
    }
  }

  void unwatch(const UniqueFd& process) {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process.get(), nullptr);
  }

  void rank_ended(std::size_t index) {
    const Rank& rank = ranks_[index];
    int status = 0;
    if (rank.pid <= 0 || ::waitpid(rank.pid, &status, WNOHANG) <= 0) return;
    ended_or_held(index, status);
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
      ended_or_held(static_cast<std::size_t>(rank - ranks_.begin()), status);
    }
  }

  void report(std::size_t index, int status) {
    const RankEnded ended{static_cast<int>(index), status};
    (void)::send(socket_.get(), &ended, sizeof ended, MSG_NOSIGNAL);
  }

  UniqueFd socket_;
  UniqueFd child_signals_;
  std::vector<Command> commands_;
  std::vector<std::string> marks_;
  UniqueFd epoll_;
  std::vector<Rank> ranks_;  ///< By command.
};

}  // namespace

Result<Keeper> Keeper::start(const std::vector<Command>& commands, std::vector<RankStreams> streams,
                             const std::vector<std::string>& marks, bool own_session) {
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
    KeeperProcess(std::move(theirs), commands, marks).live(std::move(streams), own_session);
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
  const KeeperOrder order{.signal = signal};
  (void)::send(socket_.get(), &order, sizeof order, MSG_NOSIGNAL);
}

void Keeper::kill(int index) {
  const KeeperOrder order{.kind = KeeperOrder::Kind::kKill, .index = index};
  (void)::send(socket_.get(), &order, sizeof order, MSG_NOSIGNAL);
}

void Keeper::start_again(int index, RankStreams streams) {
  send_with({.kind = KeeperOrder::Kind::kStart, .index = index}, std::move(streams));
}

void Keeper::start_step(const LaterStep& step, RankStreams streams) {
  KeeperOrder order{
      .kind = KeeperOrder::Kind::kStep, .tasks = step.tasks, .first_process = step.first_process};
  // Slurm has no longer names, and no srun starts on a host that has half of one.
  (void)step.host.copy(order.host.data(), order.host.size() - 1);
  send_with(order, std::move(streams));
}

void Keeper::send_with(const KeeperOrder& order, RankStreams streams) {
  const std::array<int, kOrderStreams> fds{streams.output.get(), streams.error.get()};
  const bool has_streams = fds[0] >= 0 && fds[1] >= 0;
  KeeperOrder copy = order;  // What sendmsg() takes might be written to.
  iovec bytes{&copy, sizeof copy};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (has_streams) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  }
  (void)::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

}  // namespace hvd
