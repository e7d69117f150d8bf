// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/nearest.h"

#include <algorithm>
#include <vector>

namespace hvd {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  // Three rows of the table of distances between prefixes; a swap looks two rows back.
  std::vector<std::size_t> before(to.size() + 1);
  std::vector<std::size_t> above(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t change = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      const bool is_swap = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[to.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = word.size() > 4 ? 3 : 2;  // what is farther is another word
  for (const std::string& candidate : candidates) {
    const bool is_broken_off = word.size() > 3 && candidate.starts_with(word);
    const std::size_t distance = is_broken_off ? 1 : edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace hvd
