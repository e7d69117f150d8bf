// SPDX-License-Identifier: Apache-2.0
#include "base/process_state.h"

#include <charconv>
#include <string>

#include "base/format.h"
#include "base/text_file.h"

namespace hvd {
namespace {

/// The number of the process as this one sees it: its own may be of another PID name space.
std::optional<long> pid_of(int pid_fd) {
  constexpr std::string_view kField = "Pid:";
  const auto facts = read_text_file(format_text("/proc/self/fdinfo/{}", pid_fd));
  if (!facts) return std::nullopt;
  const auto field = facts->find(kField);
  if (field == std::string::npos) return std::nullopt;
  const auto digits = facts->find_first_not_of(" \t", field + kField.size());
  if (digits == std::string::npos) return std::nullopt;
  long pid = 0;
  std::from_chars(facts->data() + digits, facts->data() + facts->size(), pid);
  if (pid <= 0) return std::nullopt;
  return pid;
}

}  // namespace

std::optional<char> state_in_stat(std::string_view stat) {
  const auto name_end = stat.rfind(") ");  // a name may hold brackets and spaces
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return std::nullopt;
  return stat[name_end + 2];
}

std::optional<char> state_of_pid(long pid) {
  const auto stat = read_text_file(format_text("/proc/{}/stat", pid));
  return stat ? state_in_stat(*stat) : std::nullopt;
}

std::optional<char> state_of_process(int pid_fd) {
  if (pid_fd < 0) return std::nullopt;
  const auto pid = pid_of(pid_fd);
  return pid ? state_of_pid(*pid) : std::nullopt;
}

std::string_view describe_stop(char state) {
  if (state == 'T') return "stopped (state T: by a signal, or with its job)";
  if (state == 't') return "stopped (state t: by a debugger)";
  return {};
}

}  // namespace hvd
