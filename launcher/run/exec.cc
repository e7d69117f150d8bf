// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/exec.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/console/exit_code.h"
#include "launcher/run/memory_binding.h"
#include "launcher/run/text_pointers.h"

namespace hvd {
namespace {

/// A rank starts with the signals as a shell would give them, whatever hvdrun blocked or ignored. A
/// spare would die of one that asks ranks for a checkpoint, say: it waits, and handles none yet.
void restore_signals(bool is_spare) {
  sigset_t none;
  ::sigemptyset(&none);
  (void)::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) {
    (void)std::signal(signal, SIG_DFL);
  }
  if (!is_spare) return;
  for (const int signal : {SIGUSR1, SIGUSR2}) (void)std::signal(signal, SIG_IGN);
}

/// Binds this process to `cpus`; empty: leaves it.
Status bind_to(const CpuSet& cpus) {
  if (cpus.empty()) return Status::ok();
  const int highest = cpus.back() + 1;
  cpu_set_t* mask = CPU_ALLOC(highest);
  if (mask == nullptr) return Status::system("CPU_ALLOC", ENOMEM);
  const std::size_t size = CPU_ALLOC_SIZE(highest);
  CPU_ZERO_S(size, mask);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), size, mask);
  const int failed = ::sched_setaffinity(0, size, mask);
  const int why = errno;
  CPU_FREE(mask);
  if (failed == 0) return Status::ok();
  return Status::system(format_text("binding to CPUs {}", format_cpu_set(cpus)), why);
}

void bind_memory(const Command& command) {
  if (command.memory_numas.empty()) return;
  const Status preferred = prefer_memory_of(command.memory_numas);
  if (preferred.is_ok() || preferred.code() == Code::kUnsupported || !command.speaks_for_node) {
    return;
  }
  std::fprintf(stderr,
               "hvdrun: note: memory is not bound near the CPUs (%s; a container may forbid it, "
               "--mem-bind none leaves it out)\n",
               preferred.message().c_str());
}

}  // namespace

void exec_command(const Command& command) {
  const Status bound = bind_to(command.cpus);
  if (!bound.is_ok()) {
    std::fprintf(stderr, "hvdrun: %s: %s; goes on unbound\n", describe_command(command).c_str(),
                 bound.message().c_str());
  }
  bind_memory(command);
  restore_signals(command.is_spare);
  const std::vector<char*> arguments = pointers_to(command.arguments);
  const std::vector<char*> variables = pointers_to(command.variables);
  ::execve(command.program.c_str(), arguments.data(), variables.data());
  const int why = errno;
  // A script without "#!": the shell runs it, as execvp does.
  if (why == ENOEXEC) {
    std::vector<char*> shell = arguments;
    std::string name = "/bin/sh";
    std::string script = command.program;
    shell[0] = script.data();
    shell.insert(shell.begin(), name.data());
    ::execve("/bin/sh", shell.data(), variables.data());
  }
  std::fprintf(stderr, "hvdrun: %s: %s\n", describe_command(command).c_str(),
               Status::system("cannot run " + command.program, why).message().c_str());
  std::fflush(stderr);
  ::_exit(why == ENOENT ? kExitNotFound : kExitNotExecutable);
}

void become_command(const Command& command, const RankStreams& streams) {
  // dup2 leaves the copies open over exec; the originals are close-on-exec.
  if (streams.input.is_open()) (void)::dup2(streams.input.get(), STDIN_FILENO);
  if (streams.output.is_open()) (void)::dup2(streams.output.get(), STDOUT_FILENO);
  if (streams.error.is_open()) (void)::dup2(streams.error.get(), STDERR_FILENO);
  // If the keeper is killed, hvdrun ends the job; if both are, nobody else would.
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  exec_command(command);
}

}  // namespace hvd
