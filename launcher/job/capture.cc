// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/unique_fd.h"
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

/// False: the deadline passed before both streams ended.
bool read_streams(UniqueFd& output, UniqueFd& errors, Captured& captured, Deadline deadline) {
  while (output.is_open() || errors.is_open()) {
    std::array<pollfd, 2> waits{{{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), deadline.poll_timeout_ms());
    if (ready == 0 || deadline.has_passed()) return false;
    if (waits[0].revents != 0) take(output, captured.output);
    if (waits[1].revents != 0) take(errors, captured.errors);
  }
  return true;
}

}  // namespace

Result<Captured> capture(const std::vector<std::string>& words, const Environment& environment,
                         Deadline deadline) {
  const auto found = find_program(words.front(), environment);
  if (const auto* problem = std::get_if<ProgramProblem>(&found)) {
    return error(Code::kUnsupported, "{}", problem->message);
  }
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  HVD_TRY_ASSIGN(Pipe errors, make_pipe());
  HVD_TRY_ASSIGN(const pid_t pid,
                 spawn(std::get<std::string>(found), words, environment, output, errors));
  output.write_end.reset();
  errors.write_end.reset();
  Captured captured;
  const bool ended = read_streams(output.read_end, errors.read_end, captured, deadline);
  if (!ended) (void)::kill(pid, SIGKILL);
  while (::waitpid(pid, &captured.wait_status, 0) < 0 && errno == EINTR) {
  }
  if (ended) return captured;
  return error(Code::kTimeout, "{} gave no answer in time", words.front());
}

}  // namespace hvd
