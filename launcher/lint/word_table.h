// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace hvd {

/// Whether a table of words has a word.
template <typename Table>
bool is_listed(const Table& table, std::string_view word) {
  return std::find(table.begin(), table.end(), word) != table.end();
}

}  // namespace hvd
