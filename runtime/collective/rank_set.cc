// SPDX-License-Identifier: Apache-2.0
#include "collective/rank_set.h"

#include "base/format.h"

namespace hvd {

std::string describe_ranks(const RankSet& set) {
  const std::vector<int> ranks = set.ranks();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    text += i == 0 ? "" : ", ";
    text += end == i ? format_text("{}", ranks[i]) : format_text("{}-{}", ranks[i], ranks[end]);
    i = end + 1;
  }
  return text;
}

std::string describe_list(const std::vector<int>& ranks) {
  std::string text = "[";
  for (const int rank : ranks) text += format_text("{}{}", text.size() == 1 ? "" : ", ", rank);
  return text + "]";
}

}  // namespace hvd
