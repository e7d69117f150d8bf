// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_set.h"

#include <algorithm>
#include <charconv>

namespace hvd {
namespace {

constexpr int kMaxCpu = 65535;

Status malformed(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return error(Code::kInvalidArgument, "'{}' is not a CPU list like '0-3,8'",
               text.substr(0, kShown));
}

bool take_number(std::string_view& rest, int& value) {
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (parsed.ec != std::errc() || value < 0 || value > kMaxCpu) return false;
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  return true;
}

}  // namespace

Result<CpuSet> parse_cpu_set(std::string_view text) {
  CpuSet cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    int first = 0;
    if (!take_number(rest, first)) return malformed(text);
    int last = first;
    if (rest.starts_with("-")) {
      rest.remove_prefix(1);
      if (!take_number(rest, last) || last < first) return malformed(text);
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (cpus.size() > 16 * static_cast<std::size_t>(kMaxCpu)) return malformed(text);
    if (rest.empty()) break;
    if (!rest.starts_with(",") || rest.size() == 1) return malformed(text);
    rest.remove_prefix(1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpu_set(const CpuSet& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(cpus[i]);
    if (last > i) text += format_text("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace hvd
