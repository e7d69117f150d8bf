// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/node_schedule.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hvd {
namespace {

using Move = NodeSchedule::Move;
using Step = NodeSchedule::Step;

int largest_power_within(int count) {
  int power = 1;
  while (power * 2 <= count) power *= 2;
  return power;
}

/// Two neighbours in the tree over nodes: [base, base + distance), which is full, and what follows
/// it, up to as many nodes, and none at the end of the nodes.
struct Pair {
  Pair(int nodes, int me, int distance)
      : base(me / (2 * distance) * (2 * distance)),
        distance(distance),
        right_size(std::min(distance, nodes - base - distance)),
        is_left(me < base + distance),
        offset(is_left ? me - base : me - base - distance) {}

  bool has_right() const { return right_size > 0; }
  int left(int o) const { return base + o; }
  int right(int o) const { return base + distance + o; }

  int base;
  int distance;
  int right_size;
  bool is_left;
  int offset;  // of me, in my half
};

/// All other nodes, beginning with the next one, so that not all of them send to the same one.
std::vector<int> others_of(int nodes, int me) {
  std::vector<int> others;
  for (int i = 1; i < nodes; ++i) others.push_back((me + i) % nodes);
  return others;
}

Step receive_from_all(int nodes, int me, std::size_t first, std::size_t last) {
  Step step;
  for (int node = 0; node < nodes; ++node) {
    if (node != me) step.receives.push_back({node, first, last});
  }
  step.own_at = static_cast<std::size_t>(me);
  step.finishes = true;
  return step;
}

NodeSchedule direct(NodeGoal goal, int nodes, int me, int root) {
  NodeSchedule schedule;
  Step step;
  const bool wants = goal == NodeGoal::kEveryNode || me == root;
  if (wants) step = receive_from_all(nodes, me, 0, 1);
  for (const int node : others_of(nodes, me)) {
    if (goal == NodeGoal::kEveryNode || node == root) step.sends.push_back({node, 0, 1});
  }
  schedule.known_last = wants ? 1 : 0;
  schedule.steps.push_back(std::move(step));
  return schedule;
}

NodeSchedule pairwise(NodeGoal goal, int nodes, int me, int root) {
  NodeSchedule schedule;
  schedule.parts = static_cast<std::size_t>(nodes);
  const auto mine = static_cast<std::size_t>(me);
  Step fold = receive_from_all(nodes, me, mine, mine + 1);
  for (const int node : others_of(nodes, me)) {
    const auto part = static_cast<std::size_t>(node);
    fold.sends.push_back({node, part, part + 1});
  }
  schedule.steps.push_back(std::move(fold));
  schedule.known_first = mine;
  schedule.known_last = mine + 1;
  if (goal == NodeGoal::kOwnShare) return schedule;
  Step spread;
  spread.of_results = true;
  for (const int node : others_of(nodes, me)) {
    const auto part = static_cast<std::size_t>(node);
    if (goal == NodeGoal::kEveryNode || node == root)
      spread.sends.push_back({node, mine, mine + 1});
    if (goal == NodeGoal::kEveryNode || me == root)
      spread.receives.push_back({node, part, part + 1});
  }
  schedule.steps.push_back(std::move(spread));
  if (goal == NodeGoal::kEveryNode || me == root) {
    schedule.known_first = 0;
    schedule.known_last = schedule.parts;
  }
  return schedule;
}

NodeSchedule recursive_doubling(int nodes, int me) {
  NodeSchedule schedule;
  schedule.known_last = 1;
  for (int distance = 1; distance < nodes; distance *= 2) {
    const Pair pair(nodes, me, distance);
    Step step;
    if (pair.has_right() && pair.is_left) {
      // The right half may be smaller: its nodes then send to several of the left one.
      step.receives.push_back({pair.right(pair.offset % pair.right_size), 0, 1});
      if (pair.offset < pair.right_size) step.sends.push_back({pair.right(pair.offset), 0, 1});
    } else if (pair.has_right()) {
      step.receives.push_back({pair.left(pair.offset), 0, 1});
      step.own_at = 1;
      for (int o = pair.offset; o < distance; o += pair.right_size) {
        step.sends.push_back({pair.left(o), 0, 1});
      }
    }
    step.finishes = distance * 2 >= nodes;
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

/// What node `offset` of a full block of `size` nodes holds of `parts` when the block is folded:
/// each level kept one half, the left nodes the first.
Move share_of(int offset, int size, std::size_t parts) {
  std::size_t first = 0;
  std::size_t count = parts;
  for (int bit = 1; bit < size; bit *= 2) {
    count /= 2;
    if ((offset & bit) != 0) first += count;
  }
  return {0, first, first + count};
}

/// Moves of one level on the way up; on the way down they go in the other direction. Where the
/// right half is smaller, what it has goes to the left one, and it waits for the results.
void halve(const Pair& pair, std::size_t parts, std::vector<Move>& sends,
           std::vector<Move>& receives) {
  const int owners = largest_power_within(pair.right_size);
  const bool even = pair.right_size == pair.distance;
  const int size = even ? 2 * pair.distance : pair.distance;
  const auto share = [&](int node, int offset) {
    Move move = share_of(offset, size, parts);
    move.node = node;
    return move;
  };
  if (pair.is_left) {
    const int partner = pair.right(pair.offset % owners);
    receives.push_back(share(partner, pair.offset));
    if (even) sends.push_back(share(partner, pair.offset + pair.distance));
    return;
  }
  if (pair.offset >= owners) return;  // has handed on what it had
  for (int o = pair.offset; o < pair.distance; o += owners) {
    sends.push_back(share(pair.left(o), o));
  }
  if (even) receives.push_back(share(pair.left(pair.offset), pair.offset + pair.distance));
}

NodeSchedule halving_doubling(int nodes, int me) {
  NodeSchedule schedule;
  schedule.parts = static_cast<std::size_t>(largest_power_within(nodes));
  schedule.known_last = schedule.parts;
  std::vector<Step> down;
  for (int distance = 1; distance < nodes; distance *= 2) {
    const Pair pair(nodes, me, distance);
    Step up;
    Step back;
    back.of_results = true;
    if (pair.has_right()) {
      halve(pair, schedule.parts, up.sends, up.receives);
      back.sends = up.receives;
      back.receives = up.sends;
    }
    up.own_at = pair.is_left ? 0 : 1;
    up.finishes = distance * 2 >= nodes;
    schedule.steps.push_back(std::move(up));
    down.push_back(std::move(back));
  }
  for (; !down.empty(); down.pop_back()) schedule.steps.push_back(std::move(down.back()));
  return schedule;
}

NodeSchedule tree(NodeGoal goal, int nodes, int me, int root) {
  NodeSchedule schedule;
  std::vector<Step> down;
  for (int distance = 1; distance < nodes; distance *= 2) {
    const Pair pair(nodes, me, distance);
    Step up;
    Step back;
    back.of_results = true;
    if (pair.has_right() && pair.offset == 0) {
      auto& moves = pair.is_left ? up.receives : up.sends;
      moves.push_back({pair.is_left ? pair.right(0) : pair.left(0), 0, 1});
      back.sends = up.receives;
      back.receives = up.sends;
    }
    up.finishes = distance * 2 >= nodes;
    schedule.steps.push_back(std::move(up));
    down.push_back(std::move(back));
  }
  if (goal == NodeGoal::kEveryNode) {
    for (; !down.empty(); down.pop_back()) schedule.steps.push_back(std::move(down.back()));
    schedule.known_last = 1;
    return schedule;
  }
  Step hop;
  hop.of_results = true;
  if (me == 0 && root != 0) hop.sends.push_back({root, 0, 1});
  if (me == root && root != 0) hop.receives.push_back({0, 0, 1});
  schedule.steps.push_back(std::move(hop));
  schedule.known_last = me == root ? 1 : 0;
  return schedule;
}

}  // namespace

NodeSchedule make_node_schedule(NodeAlgorithm algorithm, NodeGoal goal, int nodes, int me,
                                int root) {
  HVD_CHECK(nodes > 1 && me >= 0 && me < nodes && root >= 0 && root < nodes);
  switch (algorithm) {
    case NodeAlgorithm::kDirect:
      return direct(goal, nodes, me, root);
    case NodeAlgorithm::kRecursiveDoubling:
      return recursive_doubling(nodes, me);
    case NodeAlgorithm::kHalvingDoubling:
      return halving_doubling(nodes, me);
    case NodeAlgorithm::kPairwise:
      return pairwise(goal, nodes, me, root);
    case NodeAlgorithm::kTree:
      return tree(goal, nodes, me, root);
  }
  return {};
}

}  // namespace hvd
