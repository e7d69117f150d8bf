// SPDX-License-Identifier: Apache-2.0
#include "collective/select_allreduce.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/rounding.h"
#include "collective/network_cost.h"

namespace hvd {
namespace {

constexpr long long kRoundsUnderWay = 4;

/// What one round costs the busiest node.
struct RoundCost {
  long long steps = 0;
  long long messages = 0;
  long long bytes = 0;
};

constexpr std::array kAll = {NodeAlgorithm::kDirect, NodeAlgorithm::kRecursiveDoubling,
                             NodeAlgorithm::kHalvingDoubling, NodeAlgorithm::kPairwise,
                             NodeAlgorithm::kTree};

bool serves(NodeAlgorithm algorithm, const NodeWork& work) {
  const bool one_fold =
      algorithm == NodeAlgorithm::kDirect || algorithm == NodeAlgorithm::kPairwise;
  if (work.at_once && !one_fold) return false;
  switch (work.goal) {
    case NodeGoal::kEveryNode:
      return true;
    case NodeGoal::kOneNode:
      return one_fold || algorithm == NodeAlgorithm::kTree;
    case NodeGoal::kOwnShare:
      return algorithm == NodeAlgorithm::kPairwise;
  }
  return false;
}

long long levels_of(long long nodes) {
  long long levels = 0;
  while ((1LL << levels) < nodes) ++levels;
  return levels;
}

RoundCost cost_of(NodeAlgorithm algorithm, const NodeWork& work, long long partial,
                  long long result) {
  const long long nodes = work.nodes;
  const long long levels = levels_of(nodes);
  const long long sent_on = work.goal == NodeGoal::kOwnShare ? 0 : 1;
  switch (algorithm) {
    case NodeAlgorithm::kDirect:
      return {1, nodes - 1, (nodes - 1) * partial};
    case NodeAlgorithm::kRecursiveDoubling:
      return {levels, levels, levels * partial};
    case NodeAlgorithm::kHalvingDoubling:
      return {2 * levels, 2 * levels, (partial + result) * (nodes - 1) / nodes};
    case NodeAlgorithm::kPairwise:
      return {1 + sent_on, (1 + sent_on) * (nodes - 1),
              (partial + sent_on * result) * (nodes - 1) / nodes};
    case NodeAlgorithm::kTree:
      // The root hears from one node a level, one after the other.
      if (work.goal == NodeGoal::kOneNode) return {levels + 1, levels, levels * partial};
      return {2 * levels, 2 * levels, levels * (partial + result)};
  }
  return {};
}

long long estimate_ns(NodeAlgorithm algorithm, const NodeWork& work) {
  const auto lanes = static_cast<long long>(work.lanes);
  const auto whole = static_cast<long long>(std::max<std::size_t>(work.result_bytes, 1));
  const auto round = std::min(whole, static_cast<long long>(work.round_bytes));
  const long long rounds = divide_up(whole, round);
  const auto wide = static_cast<long long>(work.partial_bytes) / whole;  // 1 or 2
  const long long result = divide_up(round, static_cast<long long>(lanes));
  const RoundCost cost = cost_of(algorithm, work, result * std::max(wide, 1LL), result);
  const long long busy = cost.messages * kMessageNs + cost.bytes * kByteNs;
  const long long latency = cost.steps * kStepNs;
  return latency + busy + (rounds - 1) * std::max(busy, latency / kRoundsUnderWay);
}

}  // namespace

std::string_view name_of(NodeAlgorithm algorithm) {
  switch (algorithm) {
    case NodeAlgorithm::kDirect:
      return "direct";
    case NodeAlgorithm::kRecursiveDoubling:
      return "recursive doubling";
    case NodeAlgorithm::kHalvingDoubling:
      return "halving-doubling";
    case NodeAlgorithm::kPairwise:
      return "pairwise exchange";
    case NodeAlgorithm::kTree:
      return "tree";
  }
  return "?";
}

std::string_view name_of(NodeGoal goal) {
  switch (goal) {
    case NodeGoal::kEveryNode:
      return "allreduce";
    case NodeGoal::kOneNode:
      return "reduce";
    case NodeGoal::kOwnShare:
      return "reducescatter";
  }
  return "?";
}

std::string NodeSelection::reason() const {
  std::string text =
      format_text("{} of {} bytes between {} nodes over {} lane{}: {}, about {} us",
                  name_of(work.goal), work.result_bytes, work.nodes, work.lanes,
                  work.lanes == 1 ? "" : "s", name_of(algorithm), estimate_ns / 1000);
  if (second_ns >= 0) text += format_text(" ({}: {} us)", name_of(second), second_ns / 1000);
  if (work.at_once) text += "; half types on the wire are folded at once";
  return text;
}

NodeSelection select_allreduce(const NodeWork& work) {
  NodeSelection best;
  best.work = work;
  best.estimate_ns = -1;
  for (const NodeAlgorithm algorithm : kAll) {
    if (!serves(algorithm, work)) continue;
    const long long estimate = estimate_ns(algorithm, work);
    const bool is_best = best.estimate_ns < 0 || estimate < best.estimate_ns;
    if (is_best) {
      best.second = best.algorithm;
      best.second_ns = best.estimate_ns;
      best.algorithm = algorithm;
      best.estimate_ns = estimate;
    } else if (best.second_ns < 0 || estimate < best.second_ns) {
      best.second = algorithm;
      best.second_ns = estimate;
    }
  }
  return best;
}

std::string describe_allreduce_choices(NodeWork work) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::string text;
  NodeAlgorithm last = NodeAlgorithm::kDirect;
  std::size_t previous = 0;
  for (std::size_t bytes = 8; bytes <= kLargest; bytes *= 2) {
    work.partial_bytes = work.result_bytes = bytes;
    const NodeAlgorithm algorithm = select_allreduce(work).algorithm;
    if (previous != 0 && algorithm != last) {
      const bool small = previous < 1024;
      text += format_text("{} up to {} {}, ", name_of(last), small ? previous : previous / 1024,
                          small ? "bytes" : "KiB");
    }
    last = algorithm;
    previous = bytes;
  }
  text += name_of(last);
  return text;
}

}  // namespace hvd
