// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hvd {

/// The one of `words` that `typed` is at most `slips` slips from, the nearest; empty: none.
std::string_view nearest_word(std::string_view typed, std::span<const std::string_view> words,
                              std::size_t slips);

}  // namespace hvd
