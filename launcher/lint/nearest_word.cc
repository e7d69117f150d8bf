// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/nearest_word.h"

#include "launcher/options/nearest.h"

namespace hvd {

std::string_view nearest_word(std::string_view typed, std::span<const std::string_view> words,
                              std::size_t slips) {
  std::string_view nearest;
  std::size_t fewest = slips + 1;
  for (const std::string_view word : words) {
    const std::size_t distance = edit_distance(typed, word);
    if (distance >= fewest) continue;
    fewest = distance;
    nearest = word;
  }
  return nearest;
}

}  // namespace hvd
