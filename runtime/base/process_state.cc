// SPDX-License-Identifier: Apache-2.0
#include "base/process_state.h"

#include <algorithm>
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

std::optional<ProcessStat> parse_stat(std::string_view text) {
  constexpr int kState = 0;
  constexpr int kParent = 1;
  constexpr int kStart = 19;
  const auto name_end = text.rfind(") ");  // a name may hold brackets and spaces
  if (name_end == std::string_view::npos) return std::nullopt;
  ProcessStat stat;
  text.remove_prefix(name_end + 2);
  for (int field = 0; field <= kStart; ++field) {
    if (text.empty()) return std::nullopt;
    const std::string_view word = text.substr(0, text.find(' '));
    if (field == kState) stat.state = text.front();
    if (field == kParent) (void)std::from_chars(word.begin(), word.end(), stat.parent);
    if (field == kStart) (void)std::from_chars(word.begin(), word.end(), stat.start);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return stat;
}

std::optional<ProcessStat> stat_of(long pid) {
  const auto text = read_text_file(format_text("/proc/{}/stat", pid));
  return text ? parse_stat(*text) : std::nullopt;
}

std::optional<char> state_of_process(int pid_fd) {
  if (pid_fd < 0) return std::nullopt;
  const auto pid = pid_of(pid_fd);
  const auto stat = pid ? stat_of(*pid) : std::nullopt;
  return stat ? std::optional(stat->state) : std::nullopt;
}

std::string_view describe_stop(char state) {
  if (state == 'T') return "stopped (state T: by a signal, or with its job)";
  if (state == 't') return "stopped (state t: by a debugger)";
  return {};
}

}  // namespace hvd
