// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/task_masks.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxHexDigits = 1 << 14;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// "0x3C" as CPUs 2-5; empty: no mask.
CpuSet cpus_of_hex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  CpuSet cpus;
  if (text.empty() || text.size() > kMaxHexDigits) return cpus;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = hex_digit(text[text.size() - 1 - i]);
    if (digit < 0) return {};
    for (int bit = 0; bit < 4; ++bit) {
      if ((digit & (1 << bit)) != 0) cpus.push_back(static_cast<int>(4 * i) + bit);
    }
  }
  return cpus;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> words;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    words.push_back(list.substr(start, comma - start));
    start = comma + 1;
  }
  return words;
}

}  // namespace

std::vector<CpuSet> task_masks(const Environment& environment, const CpuSet& mine, int local_rank,
                               int local_size) {
  const auto count = static_cast<std::size_t>(local_size);
  const auto me = static_cast<std::size_t>(local_rank);
  std::vector<CpuSet> masks(count, mine);
  const auto list = environment.get("SLURM_CPU_BIND_LIST");
  if (!list) return masks;
  const std::vector<std::string_view> words = split(*list);
  if (std::set<std::string_view>(words.begin(), words.end()).size() < 2) return masks;
  // Slurm begins its list anew when it is shorter than the tasks are many.
  const bool is_mask = environment.get("SLURM_CPU_BIND_TYPE").value_or("mask_cpu:") == "mask_cpu:";
  for (std::size_t rank = 0; is_mask && rank < count; ++rank) {
    masks[rank] = cpus_of_hex(words[rank % words.size()]);
  }
  if (is_mask && masks[me] == mine) return masks;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const bool shared = words[rank % words.size()] == words[me % words.size()];
    masks[rank] = shared ? mine : CpuSet();
  }
  return masks;
}

std::vector<CpuSet> masks_by_launcher(const CpuSet& launcher, const CpuSet& mine, int local_rank,
                                      int local_size) {
  const auto count = static_cast<std::size_t>(local_size);
  if (mine.size() >= launcher.size()) return std::vector<CpuSet>(count, mine);
  const std::size_t sharers =
      std::min(count, std::max<std::size_t>(1, divide_up(count * mine.size(), launcher.size())));
  // Which ones they are nobody knows: neighbours.
  const auto me = static_cast<std::size_t>(local_rank);
  const std::size_t first = std::min(me - me % sharers, count - sharers);
  std::vector<CpuSet> masks(count);
  std::fill_n(masks.begin() + static_cast<std::ptrdiff_t>(first), sharers, mine);
  return masks;
}

}  // namespace hvd
