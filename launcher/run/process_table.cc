// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/process_table.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace hvd {
namespace {

constexpr std::array<std::string_view, 20> kShells{
    "ash",  "bash", "bsd-csh", "busybox", "csh",  "dash",  "elvish", "fish", "ksh",  "lksh",
    "mksh", "nu",   "oksh",    "pdksh",   "posh", "rbash", "sh",     "tcsh", "yash", "zsh"};

std::string read_proc_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string path_of(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

bool catches(pid_t pid, int signal) {
  const std::string status = read_proc_file(path_of(pid, "status"));
  constexpr std::string_view kCaught = "\nSigCgt:\t";
  const std::size_t at = status.find(kCaught);
  if (at == std::string::npos) return false;
  std::uint64_t mask = 0;
  constexpr int kHexadecimal = 16;
  (void)std::from_chars(status.data() + at + kCaught.size(), status.data() + status.size(), mask,
                        kHexadecimal);
  return ((mask >> (signal - 1)) & 1U) != 0;
}

}  // namespace

bool is_shell(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0.
  // A package that was replaced while it ran.
  constexpr std::string_view kDeleted = " (deleted)";
  if (program.ends_with(kDeleted)) program.remove_suffix(kDeleted.size());
  constexpr std::string_view kStatic = "-static";
  if (program.ends_with(kStatic)) program.remove_suffix(kStatic.size());
  while (!program.empty() && (program.back() == '.' || program.back() == '-' ||
                              (program.back() >= '0' && program.back() <= '9'))) {
    program.remove_suffix(1);  // "ksh93", "bash5.2", "zsh-5.9"
  }
  return std::find(kShells.begin(), kShells.end(), program) != kShells.end();
}

ProcessNature nature_of(pid_t pid, int signal) {
  std::array<char, 4096> program{};
  const ssize_t size = ::readlink(path_of(pid, "exe").c_str(), program.data(), program.size());
  const std::string_view text(program.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return {is_shell(text), catches(pid, signal)};
}

ProcessTable read_processes() {
  ProcessTable processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) return processes;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone.
  while (const dirent* found = ::readdir(proc.get())) {
    const std::string_view name(static_cast<const char*>(found->d_name));
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    if (const auto entry = stat_of(pid)) processes[pid] = *entry;
  }
  return processes;
}

std::vector<pid_t> descendants(const ProcessTable& processes, pid_t root) {
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes) {
    if (pid == root || process.is_zombie()) continue;
    pid_t ancestor = process.parent;
    // Bounded by the table: a pid used again while we read it could close a circle.
    for (std::size_t depth = 0; ancestor != root && depth < processes.size(); ++depth) {
      const auto next = processes.find(ancestor);
      if (next == processes.end()) break;
      ancestor = next->second.parent;
    }
    if (ancestor == root) found.push_back(pid);
  }
  return found;
}

bool is_alive(pid_t pid, const ProcessStat& entry) {
  const auto now = stat_of(pid);
  return now && !now->is_zombie() && now->start == entry.start;
}

int open_process(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // The kernel makes it close-on-exec.
}

UniqueFd signal_process(pid_t pid, const ProcessStat& entry, int signal) {
  UniqueFd process(open_process(pid));
  // Looked at after it was opened: if it is the same now, the descriptor is of it.
  const auto now = stat_of(pid);
  if (!now || now->start != entry.start) return UniqueFd();
  if (process.is_open()) {
    (void)::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
  } else {
    (void)::kill(pid, signal);
  }
  return process;
}

}  // namespace hvd
