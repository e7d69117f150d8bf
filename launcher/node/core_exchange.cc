// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/core_exchange.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvd {
namespace {

/// The core whose move from one share to another changes the sum most for the better.
struct Handover {
  int core = -1;  ///< -1: the giver has none.
  int change = 0;
};

using Handovers = std::vector<std::vector<Handover>>;  ///< [giver][receiver]
using Moves = std::vector<std::pair<std::size_t, std::size_t>>;

Handovers best_handovers(const std::vector<std::vector<int>>& cost, const CoreShares& shares) {
  Handovers best(shares.size(), std::vector<Handover>(shares.size()));
  for (std::size_t giver = 0; giver < shares.size(); ++giver) {
    for (const int core : shares[giver]) {
      const std::vector<int>& costs = cost[static_cast<std::size_t>(core)];
      for (std::size_t receiver = 0; receiver < shares.size(); ++receiver) {
        const int change = costs[receiver] - costs[giver];
        Handover& known = best[giver][receiver];
        if (receiver == giver || (known.core >= 0 && known.change <= change)) continue;
        known = {core, change};
      }
    }
  }
  return best;
}

/// The (giver, receiver) pairs of a cycle whose changes sum to less than 0 (Bellman and Ford);
/// empty: there is none.
Moves find_gaining_cycle(const Handovers& best) {
  const std::size_t size = best.size();
  std::vector<long long> distance(size);
  std::vector<std::size_t> giver_of(size);
  std::size_t changed = size;
  for (std::size_t round = 0; round <= size; ++round) {
    changed = size;
    for (std::size_t giver = 0; giver < size; ++giver) {
      for (std::size_t receiver = 0; receiver < size; ++receiver) {
        const Handover& move = best[giver][receiver];
        if (move.core < 0 || distance[giver] + move.change >= distance[receiver]) continue;
        distance[receiver] = distance[giver] + move.change;
        giver_of[receiver] = giver;
        changed = receiver;
      }
    }
    if (changed == size) return {};
  }
  for (std::size_t i = 0; i < size; ++i) changed = giver_of[changed];  // Now surely on the cycle.
  Moves moves;
  std::size_t receiver = changed;
  do {
    moves.emplace_back(giver_of[receiver], receiver);
    receiver = giver_of[receiver];
  } while (receiver != changed);
  return moves;
}

}  // namespace

// A division into shares is a flow from cores to shares; it is a least one exactly when no such
// cycle is left. The sum falls by at least 1 each time, so this ends.
void exchange_cores(const std::vector<std::vector<int>>& cost, CoreShares& shares) {
  for (;;) {
    const Handovers best = best_handovers(cost, shares);
    const Moves moves = find_gaining_cycle(best);
    if (moves.empty()) break;
    for (const auto& [giver, receiver] : moves) {
      std::erase(shares[giver], best[giver][receiver].core);
      shares[receiver].push_back(best[giver][receiver].core);
    }
  }
  for (std::vector<int>& share : shares) std::sort(share.begin(), share.end());
}

}  // namespace hvd
