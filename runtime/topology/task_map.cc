// SPDX-License-Identifier: Apache-2.0
#include "topology/task_map.h"

#include <charconv>

#include "topology/hostlist.h"

namespace hvd {
namespace {

constexpr int kMaxTasksPerNode = 65536;

Status malformed(std::string_view text, std::string_view rest, std::string_view what) {
  constexpr std::size_t kShown = 200;
  return error(Code::kInvalidArgument, "'{}' is not a task map like '4(x2),2': {} at character {}",
               text.substr(0, kShown), what, text.size() - rest.size() + 1);
}

/// Cuts a number in [1, highest] off the front of `rest`; 0 when there is none.
int take_number(std::string_view& rest, int highest) {
  int value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (parsed.ec != std::errc() || value < 1 || value > highest) return 0;
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  return value;
}

}  // namespace

Result<std::vector<int>> parse_task_map(std::string_view text) {
  std::vector<int> tasks;
  std::string_view rest = text;
  while (true) {
    const int count = take_number(rest, kMaxTasksPerNode);
    if (count == 0) return malformed(text, rest, "number of tasks expected");
    int nodes = 1;
    if (rest.starts_with("(x")) {
      rest.remove_prefix(2);
      nodes = take_number(rest, static_cast<int>(kMaxHosts));
      if (nodes == 0) return malformed(text, rest, "number of nodes expected");
      if (!rest.starts_with(")")) return malformed(text, rest, "')' expected");
      rest.remove_prefix(1);
    }
    if (tasks.size() + static_cast<std::size_t>(nodes) > kMaxHosts) {
      return malformed(text, rest, format_text("more than {} nodes", kMaxHosts));
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
    if (rest.empty()) return tasks;
    if (!rest.starts_with(",")) return malformed(text, rest, "',' expected");
    rest.remove_prefix(1);
  }
}

std::string format_task_map(const std::vector<int>& tasks) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size();) {
    std::size_t end = i;
    while (end < tasks.size() && tasks[end] == tasks[i]) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(tasks[i]);
    if (end - i > 1) text += format_text("(x{})", end - i);
    i = end;
  }
  return text;
}

}  // namespace hvd
