// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/assignment.h"

#include <cstddef>
#include <limits>

#include "base/check.h"

namespace hvd {
namespace {

constexpr long long kInfinite = std::numeric_limits<long long>::max() / 4;

/// The method's state. Rows and columns count from 1; 0 means none.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<long long>>& cost)
      : cost_(cost),
        rows_(cost.size()),
        columns_(cost.front().size()),
        row_price_(rows_ + 1),
        column_price_(columns_ + 1),
        row_of_(columns_ + 1) {
    HVD_CHECK(rows_ <= columns_);
  }

  std::vector<int> solve() {
    for (std::size_t row = 1; row <= rows_; ++row) add(row);
    std::vector<int> column_of(rows_, -1);
    for (std::size_t column = 1; column <= columns_; ++column) {
      if (row_of_[column] != 0) column_of[row_of_[column] - 1] = static_cast<int>(column) - 1;
    }
    return column_of;
  }

 private:
  /// Finds the cheapest chain of moves that gives `row` a column, and makes them.
  void add(std::size_t row) {
    std::vector<long long> slack(columns_ + 1, kInfinite);
    std::vector<std::size_t> came_from(columns_ + 1);
    std::vector<bool> is_reached(columns_ + 1);
    row_of_[0] = row;
    std::size_t column = 0;
    while (row_of_[column] != 0) {
      is_reached[column] = true;
      const std::size_t from = row_of_[column];
      std::size_t next = 0;
      long long least = kInfinite;
      for (std::size_t j = 1; j <= columns_; ++j) {
        if (is_reached[j]) continue;
        const long long reduced = cost_[from - 1][j - 1] - row_price_[from] - column_price_[j];
        if (reduced < slack[j]) {
          slack[j] = reduced;
          came_from[j] = column;
        }
        if (slack[j] < least) {
          least = slack[j];
          next = j;
        }
      }
      move_prices(least, is_reached, slack);
      column = next;
    }
    for (; column != 0; column = came_from[column]) row_of_[column] = row_of_[came_from[column]];
  }

  void move_prices(long long least, const std::vector<bool>& is_reached,
                   std::vector<long long>& slack) {
    for (std::size_t j = 0; j <= columns_; ++j) {
      if (is_reached[j]) {
        row_price_[row_of_[j]] += least;
        column_price_[j] -= least;
      } else {
        slack[j] -= least;
      }
    }
  }

  const std::vector<std::vector<long long>>& cost_;
  std::size_t rows_;
  std::size_t columns_;
  std::vector<long long> row_price_;
  std::vector<long long> column_price_;
  std::vector<std::size_t> row_of_;
};

}  // namespace

std::vector<int> assign_least_cost(const std::vector<std::vector<long long>>& cost) {
  if (cost.empty()) return {};
  return Assignment(cost).solve();
}

}  // namespace hvd
