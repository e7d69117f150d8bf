// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hvd {

/// The column that each row takes so that the sum of `cost[row][column]` is least, no column twice
/// (the assignment problem, by the Hungarian method, rows^2 x columns steps). Every row has the
/// same number of columns, at least as many as there are rows. Pure and deterministic.
std::vector<int> assign_least_cost(const std::vector<std::vector<long long>>& cost);

}  // namespace hvd
