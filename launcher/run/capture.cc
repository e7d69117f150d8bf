// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/format.h"
#include "base/unique_fd.h"
#include "launcher/console/exit_code.h"
#include "launcher/run/keeper.h"
#include "launcher/run/process_table.h"
#include "launcher/run/program_path.h"
#include "launcher/run/text_pointers.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kDeathLimit{2};       ///< For a child that was killed.
constexpr std::chrono::milliseconds kChildLook{20};  ///< Without pidfds.

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe2", errno);
  (void)::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<std::string> variables_of(const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.variables()) {
    variables.push_back(format_text("{}={}", name, value));
  }
  return variables;
}

Result<pid_t> spawn(const std::string& path, const std::vector<std::string>& words,
                    const Environment& environment, const Pipe& output, const Pipe& errors) {
  const std::vector<std::string> variables = variables_of(environment);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.write_end.get(), STDERR_FILENO);
  // hvdrun may block signals while it follows a job; the command starts with none blocked.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failure = ::posix_spawn(&pid, path.c_str(), &actions, &attributes,
                                    pointers_to(words).data(), pointers_to(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return Status::system("starting " + path, failure);
  return pid;
}

/// Takes what there is to read; closes the pipe at its end. False: there is no more for now.
bool take(UniqueFd& from, std::string& into) {
  std::array<char, 16384> buffer{};
  const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
  if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  if (count <= 0) from.reset();
  return count > 0;
}

/// Takes what the pipe holds, and no more: what the child left behind may write for ever.
void take_rest(UniqueFd& from, std::string& into) {
  const int held = from.is_open() ? ::fcntl(from.get(), F_GETPIPE_SZ) : 0;
  const std::size_t most = into.size() + static_cast<std::size_t>(std::max(held, 0));
  while (from.is_open() && into.size() < most && take(from, into)) {
  }
}

/// A child and what it writes.
struct Child {
  pid_t pid = -1;
  Pipe output;
  Pipe errors;
  UniqueFd process = UniqueFd();  ///< Closed: the kernel has no pidfds.
  bool has_ended = false;
};

/// Sees whether the child has ended.
void look_at(Child& child, Captured& captured) {
  const pid_t got = ::waitpid(child.pid, &captured.wait_status, WNOHANG);
  child.has_ended = got == child.pid || (got < 0 && errno != EINTR);
}

/// Reads until the child ends; it may have closed its streams before, and others may hold them.
/// False: the deadline passed, or `interrupt` became readable.
bool read_to_end(Child& child, Captured& captured, Deadline deadline, int interrupt) {
  UniqueFd& output = child.output.read_end;
  UniqueFd& errors = child.errors.read_end;
  while (!child.has_ended) {
    std::array<pollfd, 4> waits{{{output.get(), POLLIN, 0},
                                 {errors.get(), POLLIN, 0},
                                 {child.process.get(), POLLIN, 0},
                                 {interrupt, POLLIN, 0}}};
    const bool has_news = child.process.is_open();
    const Deadline next = has_news ? deadline : deadline.earlier(Deadline::after(kChildLook));
    (void)::poll(waits.data(), waits.size(), next.poll_timeout_ms());
    if (waits[0].revents != 0) (void)take(output, captured.output);
    if (waits[1].revents != 0) (void)take(errors, captured.errors);
    if (!has_news || waits[2].revents != 0) look_at(child, captured);
    if (child.has_ended) break;
    if (deadline.has_passed() || waits[3].revents != 0) return false;
  }
  take_rest(output, captured.output);
  take_rest(errors, captured.errors);
  return true;
}

/// Reads what a child writes to its end, and its exit status.
Result<Captured> await_child(Child child, const std::string& name, Deadline deadline,
                             int interrupt) {
  child.output.write_end.reset();
  child.errors.write_end.reset();
  child.process.reset(open_process(child.pid));
  Captured captured;
  if (read_to_end(child, captured, deadline, interrupt)) return captured;
  (void)::kill(child.pid, SIGKILL);
  // A process that hangs in a system call dies when that returns, if ever: it is left.
  (void)read_to_end(child, captured, Deadline::after(kDeathLimit), -1);
  return error(Code::kTimeout, "{} gave no answer in time", name);
}

/// As read_to_end(), for the one command of a keeper.
bool read_from_keeper(Keeper& keeper, UniqueFd& output, UniqueFd& errors, Captured& captured,
                      Deadline deadline, int interrupt) {
  std::vector<RankEnded> ended;
  while (ended.empty()) {
    std::array<pollfd, 4> waits{{{output.get(), POLLIN, 0},
                                 {errors.get(), POLLIN, 0},
                                 {keeper.socket(), POLLIN, 0},
                                 {interrupt, POLLIN, 0}}};
    (void)::poll(waits.data(), waits.size(), deadline.poll_timeout_ms());
    if (waits[0].revents != 0) (void)take(output, captured.output);
    if (waits[1].revents != 0) (void)take(errors, captured.errors);
    if (waits[2].revents != 0 && !keeper.receive(ended) && ended.empty()) return false;
    if (ended.empty() && (deadline.has_passed() || waits[3].revents != 0)) return false;
  }
  captured.wait_status = ended.front().status;
  take_rest(output, captured.output);
  take_rest(errors, captured.errors);
  return true;
}

/// All descriptors of this process but those: the child of a process that supervises a job would
/// hold its connections, and nobody would see it end.
void close_others(int first, int second) {
  const auto end = static_cast<int>(std::min(descriptor_limit().soft, std::size_t{65536}));
  for (int fd = STDERR_FILENO + 1; fd < end; ++fd) {
    if (fd != first && fd != second) (void)::close(fd);
  }
}

/// In the child: calls the function between the pipes, and ends.
[[noreturn]] void run_between(const std::function<int(std::FILE*)>& function, const Pipe& output,
                              const Pipe& errors, pid_t parent) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  close_others(output.write_end.get(), errors.write_end.get());
  sigset_t none;
  ::sigemptyset(&none);
  (void)::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  (void)::dup2(errors.write_end.get(), STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) ::_exit(1);
  (void)::dup2(nothing, STDIN_FILENO);
  (void)::dup2(nothing, STDOUT_FILENO);  // what a library prints is neither answer nor error
  std::FILE* out = ::fdopen(output.write_end.get(), "w");
  if (out == nullptr) ::_exit(1);
  const int code = function(out);
  const bool written = std::fflush(out) == 0;
  (void)std::fflush(stderr);
  ::_exit(written ? code : 1);
}

}  // namespace

std::string Captured::last_words() const {
  const std::size_t end = errors.find_last_not_of(" \n");
  if (end == std::string::npos) {
    return WIFSIGNALED(wait_status) ? describe_signal(WTERMSIG(wait_status))
                                    : format_text("exit code {}", WEXITSTATUS(wait_status));
  }
  const std::size_t line = errors.rfind('\n', end);
  const std::size_t begin = line == std::string::npos ? 0 : line + 1;
  return errors.substr(begin, end + 1 - begin);
}

Result<Captured> capture(const std::vector<std::string>& words, const Environment& environment,
                         Deadline deadline, int interrupt) {
  const auto found = find_program(words.front(), environment);
  if (const auto* problem = std::get_if<ProgramProblem>(&found)) {
    return error(Code::kUnsupported, "{}", problem->message);
  }
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  HVD_TRY_ASSIGN(Pipe errors, make_pipe());
  HVD_TRY_ASSIGN(const pid_t pid,
                 spawn(std::get<std::string>(found), words, environment, output, errors));
  return await_child({pid, std::move(output), std::move(errors)}, words.front(), deadline,
                     interrupt);
}

Result<std::string> capture_output(const std::vector<std::string>& words,
                                   const Environment& environment, Deadline deadline,
                                   int interrupt) {
  HVD_TRY_ASSIGN(Captured answer, capture(words, environment, deadline, interrupt));
  return output_of(std::move(answer), words.front());
}

Result<std::string> output_of(Captured answer, const std::string& name) {
  if (answer.succeeded()) return std::move(answer.output);
  const std::string why = answer.last_words();
  return error(Code::kSystem, "{}{}", why.starts_with(name + ": ") ? "" : name + ": ", why);
}

Result<Captured> capture_contained(const std::vector<std::string>& words,
                                   const Environment& environment, Deadline deadline,
                                   int interrupt) {
  const auto found = find_program(words.front(), environment);
  if (const auto* problem = std::get_if<ProgramProblem>(&found)) {
    return error(Code::kUnsupported, "{}", problem->message);
  }
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  HVD_TRY_ASSIGN(Pipe errors, make_pipe());
  Command command;
  command.program = std::get<std::string>(found);
  command.arguments = words;
  command.variables = variables_of(environment);
  std::vector<RankStreams> streams(1);
  streams.front() = {UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                     std::move(output.write_end), std::move(errors.write_end)};
  HVD_TRY_ASSIGN(Keeper keeper, Keeper::start({command}, std::move(streams), {}));
  Captured captured;
  const bool has_ended =
      read_from_keeper(keeper, output.read_end, errors.read_end, captured, deadline, interrupt);
  keeper.release();
  // It limits itself.
  while (::waitpid(keeper.pid(), nullptr, 0) < 0 && errno == EINTR) {
  }
  if (has_ended) return captured;
  return error(Code::kTimeout, "{} gave no answer in time", words.front());
}

Result<Captured> capture_call(const std::string& name,
                              const std::function<int(std::FILE*)>& function, Deadline deadline,
                              int interrupt) {
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  HVD_TRY_ASSIGN(Pipe errors, make_pipe());
  (void)std::fflush(nullptr);  // else the child may write again what we have not written yet
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::system("fork", errno);
  if (pid == 0) run_between(function, output, errors, parent);
  return await_child({pid, std::move(output), std::move(errors)}, name, deadline, interrupt);
}

}  // namespace hvd
