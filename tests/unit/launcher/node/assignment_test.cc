// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "launcher/node/core_exchange.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using Costs = std::vector<std::vector<long long>>;

long long sum_of(const Costs& costs, const std::vector<int>& columns) {
  long long sum = 0;
  for (std::size_t row = 0; row < columns.size(); ++row) {
    sum += costs[row][static_cast<std::size_t>(columns[row])];
  }
  return sum;
}

long long least_by_trying_all(const Costs& costs) {
  std::vector<int> columns(costs.front().size());
  std::iota(columns.begin(), columns.end(), 0);
  long long least = std::numeric_limits<long long>::max();
  do {
    const std::vector<int> first(columns.begin(),
                                 columns.begin() + static_cast<std::ptrdiff_t>(costs.size()));
    least = std::min(least, sum_of(costs, first));
  } while (std::next_permutation(columns.begin(), columns.end()));
  return least;
}

TEST(Assignment, IsTheLeastOfAllPermutations) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same cases every time.
  for (int round = 0; round < 200; ++round) {
    const std::size_t rows = 1 + random() % 6;
    Costs costs(rows, std::vector<long long>(rows + random() % 2));
    for (auto& row : costs) {
      for (long long& cost : row) cost = static_cast<long long>(random() % 10);
    }
    const std::vector<int> columns = assign_least_cost(costs);
    std::vector<int> sorted = columns;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
    EXPECT_EQ(sum_of(costs, columns), least_by_trying_all(costs)) << "round " << round;
  }
}

TEST(Assignment, TakesTheEdges) {
  EXPECT_TRUE(assign_least_cost({}).empty());
  EXPECT_THAT(assign_least_cost({{5, 4, 3}}), ElementsAre(2));
}

TEST(CoreExchange, LeavesTheBestAloneAndFindsChains) {
  CoreShares best{{0, 1}, {2, 3}};
  exchange_cores({{0, 1}, {0, 1}, {1, 0}, {1, 0}}, best);
  EXPECT_THAT(best, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  // Only a chain over three shares helps: each core wants the next share.
  CoreShares chain{{0}, {1}, {2}};
  exchange_cores({{5, 0, 9}, {9, 5, 0}, {0, 9, 5}}, chain);
  EXPECT_THAT(chain, ElementsAre(ElementsAre(2), ElementsAre(0), ElementsAre(1)));
  CoreShares none;
  exchange_cores({}, none);
}

TEST(CoreExchange, EqualsTheAssignmentOfSingleCores) {
  std::mt19937 random(11);  // NOLINT(bugprone-random-generator-seed): the same cases every time.
  for (int round = 0; round < 100; ++round) {
    const std::size_t count = 2 + random() % 7;
    std::vector<std::vector<int>> cost(count, std::vector<int>(count));
    Costs wide(count, std::vector<long long>(count));
    for (std::size_t i = 0; i < count * count; ++i) {
      wide[i / count][i % count] = cost[i / count][i % count] = static_cast<int>(random() % 5);
    }
    CoreShares shares;
    for (std::size_t core = 0; core < count; ++core) shares.push_back({static_cast<int>(core)});
    exchange_cores(cost, shares);
    long long sum = 0;
    for (std::size_t share = 0; share < count; ++share) {
      sum += cost[static_cast<std::size_t>(shares[share].front())][share];
    }
    EXPECT_EQ(sum, sum_of(wide, assign_least_cost(wide))) << "round " << round;
  }
}

}  // namespace
}  // namespace hvd
