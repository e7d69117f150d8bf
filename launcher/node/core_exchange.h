// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hvd {

/// Cores by share: `shares[s]` lists the cores that share s has.
using CoreShares = std::vector<std::vector<int>>;

/// Exchanges cores between shares, sizes kept, until the sum of `cost[core][share]` over all cores
/// is least. Shares that are best already stay as they are; each comes out sorted. Pure.
void exchange_cores(const std::vector<std::vector<int>>& cost, CoreShares& shares);

}  // namespace hvd
