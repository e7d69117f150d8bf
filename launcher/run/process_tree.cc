// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace hvd {
namespace {

struct ProcessEntry {
  pid_t parent = 0;
  bool is_zombie = false;
  bool is_marked = false;
};

std::string read_file(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return text;
  constexpr std::size_t kChunk = 4096;
  while (true) {
    const std::size_t size = text.size();
    text.resize(size + kChunk);
    const ssize_t got = ::read(fd.get(), text.data() + size, kChunk);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return text;
  }
}

/// The state and parent in /proc/PID/stat stand behind the name, which may hold any character.
bool parse_stat(const std::string& stat, ProcessEntry& entry) {
  const std::size_t end_of_name = stat.rfind(") ");
  if (end_of_name == std::string::npos || end_of_name + 4 >= stat.size()) return false;
  entry.is_zombie = stat[end_of_name + 2] == 'Z' || stat[end_of_name + 2] == 'X';
  const char* parent = stat.data() + end_of_name + 4;
  return std::from_chars(parent, stat.data() + stat.size(), entry.parent).ec == std::errc();
}

bool has_marker(const std::string& environment, const std::string& marker) {
  std::size_t at = environment.find(marker);
  while (at != std::string::npos) {
    const std::size_t end = at + marker.size();
    const bool starts = at == 0 || environment[at - 1] == '\0';
    if (starts && (end == environment.size() || environment[end] == '\0')) return true;
    at = environment.find(marker, end);
  }
  return false;
}

std::map<pid_t, ProcessEntry> all_processes(const std::string& marker) {
  std::map<pid_t, ProcessEntry> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) return processes;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone.
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string name(static_cast<const char*>(entry->d_name));
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    ProcessEntry process;
    if (!parse_stat(read_file("/proc/" + name + "/stat"), process)) continue;
    process.is_marked = has_marker(read_file("/proc/" + name + "/environ"), marker);
    processes[pid] = process;
  }
  return processes;
}

/// The living processes below this one, and those with the marker and all below them.
std::vector<pid_t> job_processes(const std::string& marker) {
  const std::map<pid_t, ProcessEntry> processes = all_processes(marker);
  const pid_t self = ::getpid();
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes) {
    if (pid == self || process.is_zombie) continue;
    bool is_ours = process.is_marked;
    pid_t ancestor = process.parent;
    // Bounded by the table: a pid used again while we read it could close a circle.
    for (std::size_t depth = 0; !is_ours && depth < processes.size(); ++depth) {
      if (ancestor == self) is_ours = true;
      const auto next = processes.find(ancestor);
      if (next == processes.end()) break;
      is_ours = is_ours || next->second.is_marked;
      ancestor = next->second.parent;
    }
    if (is_ours) found.push_back(pid);
  }
  return found;
}

}  // namespace

int open_process(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // The kernel makes it close-on-exec.
}

void kill_job_processes(const std::string& marker, Deadline deadline) {
  while (!deadline.has_passed()) {
    const std::vector<pid_t> found = job_processes(marker);
    for (const pid_t pid : found) (void)::kill(pid, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (found.empty()) return;
    const UniqueFd last(open_process(found.back()));  // One stands for all of them.
    pollfd wait{last.get(), POLLIN, 0};
    if (last.is_open()) (void)::poll(&wait, 1, deadline.poll_timeout_ms());
  }
}

}  // namespace hvd
