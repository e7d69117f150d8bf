// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/launcher_mask.h"

#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

#include "base/text_file.h"
#include "launcher/node/affinity_mask.h"

namespace hvd {
namespace {

constexpr int kMostAncestors = 16;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// Whether the environment that a process began with has the variable; none: it cannot be read.
std::optional<bool> began_with(pid_t process, std::string_view variable) {
  const auto text = read_file("/proc/" + std::to_string(process) + "/environ", kMostBytes);
  if (!text.is_ok()) return std::nullopt;
  const std::string start = '\0' + std::string(variable) + '=';
  return ('\0' + text.value()).find(start) != std::string::npos;
}

/// 0: there is none, or it cannot be read.
pid_t parent_of(pid_t process) {
  constexpr std::string_view kField = "\nPPid:\t";
  const auto text = read_file("/proc/" + std::to_string(process) + "/status", kMostBytes);
  if (!text.is_ok()) return 0;
  const std::size_t at = text.value().find(kField);
  if (at == std::string::npos) return 0;
  pid_t parent = 0;
  const char* const end = text.value().data() + text.value().size();
  std::from_chars(text.value().data() + at + kField.size(), end, parent);
  return parent;
}

}  // namespace

CpuSet launcher_mask(std::string_view rank_variable) {
  pid_t process = ::getppid();
  for (int i = 0; i < kMostAncestors && process > 1; ++i, process = parent_of(process)) {
    const std::optional<bool> is_rank = began_with(process, rank_variable);
    if (!is_rank) return {};
    if (!*is_rank) return affinity_mask(process);
  }
  return {};
}

}  // namespace hvd
