// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/format.h"
#include "base/unique_fd.h"
#include "launcher/console/exit_code.h"
#include "launcher/run/program_path.h"
#include "launcher/run/text_pointers.h"

namespace hvd {
namespace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe2", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<pid_t> spawn(const std::string& path, const std::vector<std::string>& words,
                    const Environment& environment, const Pipe& output, const Pipe& errors) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.variables()) {
    variables.push_back(format_text("{}={}", name, value));
  }
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

/// Takes what there is to read; closes the pipe at its end.
void take(UniqueFd& from, std::string& into) {
  std::array<char, 16384> buffer{};
  const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
  if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR)) from.reset();
}

/// False: the deadline passed, or `interrupt` became readable, before both streams ended.
bool read_streams(UniqueFd& output, UniqueFd& errors, Captured& captured, Deadline deadline,
                  int interrupt) {
  while (output.is_open() || errors.is_open()) {
    std::array<pollfd, 3> waits{
        {{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}, {interrupt, POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), deadline.poll_timeout_ms());
    if (ready == 0 || deadline.has_passed() || waits[2].revents != 0) return false;
    if (waits[0].revents != 0) take(output, captured.output);
    if (waits[1].revents != 0) take(errors, captured.errors);
  }
  return true;
}

/// Reads what a child writes to its end, and its exit status.
Result<Captured> await_child(pid_t pid, const std::string& name, Pipe& output, Pipe& errors,
                             Deadline deadline, int interrupt) {
  output.write_end.reset();
  errors.write_end.reset();
  Captured captured;
  const bool ended = read_streams(output.read_end, errors.read_end, captured, deadline, interrupt);
  if (!ended) (void)::kill(pid, SIGKILL);
  while (::waitpid(pid, &captured.wait_status, 0) < 0 && errno == EINTR) {
  }
  if (ended) return captured;
  return error(Code::kTimeout, "{} gave no answer in time", name);
}

/// In the child: calls the function between the pipes, and ends.
[[noreturn]] void run_between(const std::function<int(std::FILE*)>& function, const Pipe& output,
                              const Pipe& errors) {
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
  return await_child(pid, words.front(), output, errors, deadline, interrupt);
}

Result<Captured> capture_call(const std::string& name,
                              const std::function<int(std::FILE*)>& function, Deadline deadline,
                              int interrupt) {
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  HVD_TRY_ASSIGN(Pipe errors, make_pipe());
  (void)std::fflush(nullptr);  // else the child may write again what we have not written yet
  const pid_t pid = ::fork();
  if (pid < 0) return Status::system("fork", errno);
  if (pid == 0) run_between(function, output, errors);
  return await_child(pid, name, output, errors, deadline, interrupt);
}

}  // namespace hvd
