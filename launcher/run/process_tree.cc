// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/process_tree.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "base/unique_fd.h"
#include "launcher/run/process_table.h"

namespace hvd {
namespace {

/// For one environment: the process may hang in the kernel with its memory locked.
constexpr std::chrono::milliseconds kReadLimit{500};

std::string read_environment(pid_t pid) {
  std::string text;
  const std::string path = "/proc/" + std::to_string(pid) + "/environ";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  constexpr std::size_t kChunk = 4096;
  for (ssize_t got = fd.is_open() ? 1 : 0; got > 0;) {
    const std::size_t size = text.size();
    text.resize(size + kChunk);
    got = ::read(fd.get(), text.data() + size, kChunk);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  return text;
}

/// Reads the environments of processes in a child, so that one that cannot be read is passed over.
class MarkReader {
 public:
  explicit MarkReader(const std::vector<std::string>& marks) : marks_(marks) {}

  std::vector<pid_t> marked_of(const std::vector<pid_t>& pids, Deadline deadline) const {
    std::vector<pid_t> marked;
    for (std::size_t at = 0; at < pids.size() && !deadline.has_passed(); ++at) {
      at = read_from(pids, at, marked);
    }
    return marked;
  }

 private:
  /// Returns the place of the process that could not be read; the size where there is none.
  std::size_t read_from(const std::vector<pid_t>& pids, std::size_t at,
                        std::vector<pid_t>& marked) const {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return pids.size();
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
      for (; at < pids.size(); ++at) {
        const char answer = has_marks(read_environment(pids[at]), marks_) ? '1' : '0';
        if (::write(writer.get(), &answer, 1) != 1) break;
      }
      ::_exit(0);
    }
    writer.reset();
    if (child < 0) return pids.size();
    for (; at < pids.size(); ++at) {
      pollfd ready{reader.get(), POLLIN, 0};
      char answer = 0;
      if (::poll(&ready, 1, static_cast<int>(kReadLimit.count())) <= 0) break;
      if (::read(reader.get(), &answer, 1) != 1) break;
      if (answer == '1') marked.push_back(pids[at]);
    }
    // Not waited for: where it hangs, it would hold us too. It is our child, and reaped as such.
    (void)::kill(child, SIGKILL);
    return at;
  }

  const std::vector<std::string>& marks_;
};

/// The processes with the marks that are not below us, and those below them.
std::vector<pid_t> marked_processes(const ProcessTable& processes, const std::vector<pid_t>& below,
                                    const std::vector<std::string>& marks, Deadline deadline) {
  std::vector<pid_t> candidates;
  for (const auto& [pid, process] : processes) {
    struct stat owner {};
    if (process.is_zombie() || std::binary_search(below.begin(), below.end(), pid)) continue;
    if (pid == ::getpid() || ::stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0)
      continue;
    if (owner.st_uid == ::geteuid()) candidates.push_back(pid);
  }
  std::set<pid_t> found;
  for (const pid_t pid : MarkReader(marks).marked_of(candidates, deadline)) {
    found.insert(pid);
    const std::vector<pid_t> theirs = descendants(processes, pid);
    found.insert(theirs.begin(), theirs.end());
  }
  found.erase(::getpid());
  return {found.begin(), found.end()};
}

/// Returns a pidfd of one of them, which stands for all; closed: the kernel has none.
UniqueFd kill_all(const ProcessTable& processes, const std::vector<pid_t>& pids) {
  UniqueFd last;
  for (const pid_t pid : pids) {
    UniqueFd process = signal_process(pid, processes.at(pid), SIGKILL);
    if (process.is_open()) last = std::move(process);
  }
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  return last;
}

void await_end(const UniqueFd& process, Deadline deadline) {
  // One that has no pidfd, or that hangs in the kernel, must not keep the others from their end.
  constexpr int kLook = 1000;
  constexpr int kLookWithout = 10;
  pollfd wait{process.get(), POLLIN, 0};
  const int limit = std::min(process.is_open() ? kLook : kLookWithout, deadline.poll_timeout_ms());
  (void)::poll(&wait, 1, limit);
}

}  // namespace

bool has_marks(std::string_view environment, const std::vector<std::string>& marks) {
  return !marks.empty() && std::all_of(marks.begin(), marks.end(), [&](const std::string& mark) {
    for (std::size_t at = environment.find(mark); at != std::string_view::npos;) {
      const std::size_t end = at + mark.size();
      const bool starts = at == 0 || environment[at - 1] == '\0';
      if (starts && (end == environment.size() || environment[end] == '\0')) return true;
      at = environment.find(mark, end);
    }
    return false;
  });
}

void kill_marked_below(const std::vector<std::string>& marks) {
  const ProcessTable processes = read_processes();
  const std::vector<pid_t> below = descendants(processes, ::getpid());
  for (const pid_t pid : MarkReader(marks).marked_of(below, Deadline::after(kReadLimit))) {
    (void)signal_process(pid, processes.at(pid), SIGKILL);
  }
}

void kill_job_processes(const std::vector<std::string>& marks, Deadline deadline) {
  while (!deadline.has_passed()) {
    // Without a child nothing is below us: the table of a large machine takes its time.
    if (marks.empty() && ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
    const ProcessTable processes = read_processes();
    const std::vector<pid_t> below = descendants(processes, ::getpid());
    UniqueFd last = kill_all(processes, below);
    bool is_done = below.empty();
    if (!marks.empty()) {
      const std::vector<pid_t> marked = marked_processes(processes, below, marks, deadline);
      if (UniqueFd other = kill_all(processes, marked); other.is_open()) last = std::move(other);
      is_done = is_done && marked.empty();
    }
    if (is_done) return;
    await_end(last, deadline);
  }
}

}  // namespace hvd
