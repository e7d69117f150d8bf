// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/gres_count.h"

#include <algorithm>
#include <vector>

#include "launcher/cluster/slurm_record.h"

namespace hvd {
namespace {

constexpr long long kMostGpus = 1024;  ///< Of one node; more is not a count.

/// `gres` without what stands in parentheses, which may hold commas: "(S:0,2)".
std::string without_places(std::string_view gres) {
  std::string text;
  int depth = 0;
  for (const char c : gres) {
    if (c == '(') ++depth;
    if (depth == 0) text += c;
    if (c == ')' && depth > 0) --depth;
  }
  return text;
}

}  // namespace

GresCount gpus_of_gres(std::string_view gres) {
  GresCount gpus;
  bool is_mixed = false;
  for (const std::string& entry : comma_words(without_places(gres))) {
    if (entry != "gpu" && !entry.starts_with("gpu:")) continue;
    std::string type;
    std::optional<long long> count;
    for (std::size_t at = 3; at < entry.size();) {
      const std::size_t end = std::min(entry.find(':', at + 1), entry.size());
      const std::string word = entry.substr(at + 1, end - at - 1);
      count = record_number(word);
      if (!count && word != "no_consume") type = word;
      at = end;
    }
    const long long counted = count.value_or(1);
    if (counted > kMostGpus - gpus.count) continue;
    is_mixed = is_mixed || (gpus.count > 0 && type != gpus.type);
    gpus.count += static_cast<int>(counted);
    gpus.type = type;
  }
  if (is_mixed) gpus.type.clear();
  return gpus;
}

}  // namespace hvd
