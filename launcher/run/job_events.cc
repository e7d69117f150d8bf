// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/job_events.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/format.h"
#include "base/unique_fd.h"
#include "launcher/run/process_table.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

constexpr std::chrono::milliseconds kHelpersTime{500};

/// The command line of a process; empty: it is gone.
std::string command_line_of(pid_t pid) {
  std::ifstream file(format_text("/proc/{}/cmdline", pid), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::replace(text.begin(), text.end(), '\0', ' ');
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

void JobEvents::launched(int processes, bool is_by_srun) {
  processes_ = processes;
  write(JobEvent::Kind::kLaunched, processes, is_by_srun ? 1 : 0);
}

void JobEvents::rank_said(int rank, int lost) {
  if (lost != launch_env::kNobodyLost || !started_.insert(rank).second) return;
  if (static_cast<int>(started_.size()) == processes_) write(JobEvent::Kind::kStarted, 0, 0);
}

void JobEvents::step_started(std::string_view step) { write(JobEvent::Kind::kStarted, 0, 0, step); }

void JobEvents::ended(int index, int status) { write(JobEvent::Kind::kEnded, index, status); }

void JobEvents::look_for_left(pid_t keeper) {
  if (!is_watched()) return;
  const Deadline limit = Deadline::after(kHelpersTime);
  std::vector<pid_t> left = descendants(read_processes(), keeper);
  while (!left.empty() && !limit.has_passed()) {
    const UniqueFd process(open_process(left.front()));
    if (!process.is_open() && errno != ESRCH) break;  // The kernel has no pidfds.
    pollfd ended{process.get(), POLLIN, 0};
    if (process.is_open()) (void)::poll(&ended, 1, limit.poll_timeout_ms());
    left = descendants(read_processes(), keeper);
  }
  if (left.empty()) return;
  write(JobEvent::Kind::kLeft, static_cast<int>(left.size()), 0, command_line_of(left.front()));
}

void JobEvents::write(JobEvent::Kind kind, int index, int value, std::string_view text) const {
  if (!is_watched()) return;
  JobEvent event{.kind = kind, .index = index, .value = value};
  std::copy_n(text.begin(), std::min(text.size(), event.text.size() - 1), event.text.begin());
  // Shorter than PIPE_BUF: whole or not at all.
  while (::write(pipe_, &event, sizeof event) < 0 && errno == EINTR) {
  }
}

}  // namespace hvd
