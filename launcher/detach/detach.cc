// SPDX-License-Identifier: Apache-2.0
#include "launcher/detach/detach.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <thread>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/format.h"
#include "base/process_state.h"
#include "base/text_file.h"
#include "base/unique_fd.h"
#include "base/write_all.h"
#include "bootstrap/local_host.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/detach/detached_job.h"

namespace hvd {
namespace {

/// A mistake in the command line or in the first lines of a program shows within this.
constexpr std::chrono::milliseconds kFirstMoments{1500};
constexpr std::chrono::milliseconds kEarlyLook{20};

std::string current_directory() {
  std::string path(4096, '\0');
  if (::getcwd(path.data(), path.size()) == nullptr) return "";
  path.resize(path.find('\0'));
  return path;
}

/// The life of the process in the background. It begins once its job is on record, which the end of
/// `gate` says; a closed one says that it cannot be.
[[noreturn]] void live_in_background(const DetachedJob& job, int output, int gate,
                                     const std::function<int()>& run) {
  (void)::setsid();
  char is_recorded = 0;
  if (::read(gate, &is_recorded, 1) != 1) ::_exit(kExitFailure);
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  (void)::dup2(nothing.get(), STDIN_FILENO);
  (void)::dup2(output, STDOUT_FILENO);
  (void)::dup2(output, STDERR_FILENO);
  const int code = run();
  (void)std::fflush(nullptr);
  const Status written = write_exit_code(job, code);
  if (!written.is_ok()) print_message(written.message());
  ::_exit(code);
}

/// The exit code of a child that ends soon.
std::optional<int> await_early_end(pid_t child) {
  const Deadline patience = Deadline::after(kFirstMoments);
  while (!patience.has_passed()) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return exit_code_of(status);
    std::this_thread::sleep_for(kEarlyLook);
  }
  return std::nullopt;
}

Result<int> start_in_background(const std::vector<std::string>& command,
                                const std::function<int()>& run) {
  HVD_TRY_ASSIGN(const std::string jobs, detached_jobs_folder(Environment::of_process()));
  HVD_TRY_ASSIGN(DetachedJob job, make_detached_job(jobs));
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const UniqueFd output(::open(job.output().c_str(), flags, 0600));
  if (!output.is_open()) return Status::system("open " + job.output(), errno);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe", errno);
  UniqueFd gate(ends[0]);
  UniqueFd opener(ends[1]);
  (void)std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return Status::system("fork", errno);
  if (child == 0) {
    opener.reset();
    live_in_background(job, output.get(), gate.get(), run);
  }
  job.host = local_host_name();
  job.pid = child;
  job.start = stat_of(child).value_or(ProcessStat{}).start;
  job.began = static_cast<std::int64_t>(::time(nullptr));
  job.directory = current_directory();
  job.command = command;
  HVD_TRY(write_detached_job(job));
  (void)write_without_signal(opener.get(), "1");
  if (const auto code = await_early_end(child)) {
    (void)write_all(STDERR_FILENO, read_text_file(job.output()).value_or(""));
    return *code;
  }
  print_message(
      format_text("job {0} runs in the background: 'hvdrun attach {0}' shows what it writes, "
                  "'hvdrun attach {0} "
                  "--end' ends it; its output is {1}",
                  job.number, job.output()));
  return 0;
}

}  // namespace

int detach_job(const std::vector<std::string>& command, const std::function<int()>& run) {
  const auto code = start_in_background(command, run);
  if (code.is_ok()) return code.value();
  print_message(code.status().with_context("--detach").message());
  return kExitFailure;
}

}  // namespace hvd
