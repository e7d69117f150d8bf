// SPDX-License-Identifier: Apache-2.0
// Every schedule for 2 to 17 nodes, run step by step, against the tree over nodes that the
// documentation promises: bit by bit, and each message that is sent is due.
#include "backends/lanes/node_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

namespace hvd {
namespace {

constexpr int kMostNodes = 17;

/// What a node put in for a part: such that another association gives other bits.
float input_of(int node, std::size_t part) {
  return std::ldexp(1.0F + 0.1F * static_cast<float>(node * 7 + static_cast<int>(part) * 3),
                    node * 5 % 11);
}

float fold_tree(const std::vector<float>& values, std::size_t lo, std::size_t hi) {
  if (hi - lo == 1) return values[lo];
  std::size_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  return fold_tree(values, lo, lo + half) + fold_tree(values, lo + half, hi);
}

float expected(int nodes, std::size_t part) {
  std::vector<float> values;
  for (int node = 0; node < nodes; ++node) values.push_back(input_of(node, part));
  return fold_tree(values, 0, values.size());
}

/// One node on its way through its schedule.
struct Node {
  NodeSchedule schedule;
  std::vector<float> own;
  std::vector<std::optional<float>> result;
};

using Parts = std::vector<std::optional<float>>;
using Messages = std::map<std::tuple<int, int>, std::pair<NodeSchedule::Move, Parts>>;

void send_all(std::vector<Node>& nodes, std::size_t index, Messages& messages) {
  for (std::size_t me = 0; me < nodes.size(); ++me) {
    const NodeSchedule::Step& step = nodes[me].schedule.steps[index];
    for (const NodeSchedule::Move& move : step.sends) {
      Parts parts;
      for (std::size_t part = move.first; part < move.last; ++part) {
        if (step.of_results) {
          ASSERT_TRUE(nodes[me].result[part].has_value()) << "sends a result that it does not have";
          parts.push_back(nodes[me].result[part]);
        } else {
          parts.emplace_back(nodes[me].own[part]);
        }
      }
      const auto key = std::make_tuple(static_cast<int>(me), move.node);
      EXPECT_TRUE(messages.emplace(key, std::make_pair(move, parts)).second) << "two in one step";
    }
  }
}

void fold(Node& node, const NodeSchedule::Step& step, const std::vector<Parts>& arrived) {
  const NodeSchedule::Move& move = step.receives.front();
  for (std::size_t part = move.first; part < move.last; ++part) {
    std::vector<float> values;
    for (const Parts& parts : arrived) values.push_back(*parts[part - move.first]);
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(step.own_at), node.own[part]);
    const float sum = fold_tree(values, 0, values.size());
    node.own[part] = sum;
    if (step.finishes) node.result[part] = sum;
  }
}

void receive_all(std::vector<Node>& nodes, std::size_t index, Messages& messages) {
  for (std::size_t me = 0; me < nodes.size(); ++me) {
    const NodeSchedule::Step& step = nodes[me].schedule.steps[index];
    std::vector<Parts> arrived;
    for (const NodeSchedule::Move& move : step.receives) {
      const auto found = messages.find({move.node, static_cast<int>(me)});
      ASSERT_NE(found, messages.end()) << "nobody sends what is due from node " << move.node;
      EXPECT_EQ(found->second.first.first, move.first);
      EXPECT_EQ(found->second.first.last, move.last);
      for (std::size_t part = move.first; part < move.last && step.of_results; ++part) {
        nodes[me].result[part] = found->second.second[part - move.first];
      }
      arrived.push_back(std::move(found->second.second));
      messages.erase(found);
    }
    if (!step.of_results && !arrived.empty()) fold(nodes[me], step, arrived);
  }
  EXPECT_TRUE(messages.empty()) << "a message that nobody waits for";
}

void check(NodeAlgorithm algorithm, NodeGoal goal, int count, int root) {
  SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::string(name_of(goal)) + " among " +
               std::to_string(count) + ", root " + std::to_string(root));
  std::vector<Node> nodes;
  for (int me = 0; me < count; ++me) {
    Node& node = nodes.emplace_back();
    node.schedule = make_node_schedule(algorithm, goal, count, me, root);
    for (std::size_t part = 0; part < node.schedule.parts; ++part) {
      node.own.push_back(input_of(me, part));
    }
    node.result.resize(node.schedule.parts);
    ASSERT_EQ(node.schedule.steps.size(), nodes.front().schedule.steps.size());
  }
  for (std::size_t step = 0; step < nodes.front().schedule.steps.size(); ++step) {
    Messages messages;
    send_all(nodes, step, messages);
    receive_all(nodes, step, messages);
  }
  for (int me = 0; me < count; ++me) {
    const Node& node = nodes[static_cast<std::size_t>(me)];
    const bool all = goal == NodeGoal::kEveryNode || (goal == NodeGoal::kOneNode && me == root);
    if (all) {
      EXPECT_EQ(node.schedule.known_last - node.schedule.known_first, node.schedule.parts);
    }
    if (goal == NodeGoal::kOwnShare) {
      EXPECT_EQ(node.schedule.known_first, static_cast<std::size_t>(me));
      EXPECT_EQ(node.schedule.known_last, static_cast<std::size_t>(me) + 1);
    }
    for (std::size_t p = node.schedule.known_first; p < node.schedule.known_last; ++p) {
      ASSERT_TRUE(node.result[p].has_value()) << "node " << me << " part " << p;
      EXPECT_EQ(*node.result[p], expected(count, p)) << "node " << me << " part " << p;
    }
  }
}

TEST(NodeSchedule, EveryAlgorithmGivesTheBitsOfTheTree) {
  for (int nodes = 2; nodes <= kMostNodes; ++nodes) {
    for (const auto algorithm :
         {NodeAlgorithm::kDirect, NodeAlgorithm::kRecursiveDoubling,
          NodeAlgorithm::kHalvingDoubling, NodeAlgorithm::kPairwise, NodeAlgorithm::kTree}) {
      check(algorithm, NodeGoal::kEveryNode, nodes, 0);
    }
  }
}

TEST(NodeSchedule, ReducesToAnyRoot) {
  for (int nodes = 2; nodes <= kMostNodes; ++nodes) {
    for (int root = 0; root < nodes; ++root) {
      for (const auto algorithm :
           {NodeAlgorithm::kDirect, NodeAlgorithm::kPairwise, NodeAlgorithm::kTree}) {
        check(algorithm, NodeGoal::kOneNode, nodes, root);
      }
    }
  }
}

TEST(NodeSchedule, ScattersShares) {
  for (int nodes = 2; nodes <= kMostNodes; ++nodes) {
    check(NodeAlgorithm::kPairwise, NodeGoal::kOwnShare, nodes, 0);
  }
}

/// Parts that a node sends, over all steps.
std::size_t parts_sent(const NodeSchedule& schedule) {
  std::size_t parts = 0;
  for (const NodeSchedule::Step& step : schedule.steps) {
    for (const NodeSchedule::Move& move : step.sends) parts += move.last - move.first;
  }
  return parts;
}

TEST(NodeSchedule, HalvingDoublingSendsNoMoreThanTwiceThePieceFromAnyNode) {
  for (int nodes = 2; nodes <= 64; ++nodes) {
    for (int me = 0; me < nodes; ++me) {
      const auto schedule =
          make_node_schedule(NodeAlgorithm::kHalvingDoubling, NodeGoal::kEveryNode, nodes, me);
      EXPECT_LE(parts_sent(schedule), 2 * schedule.parts) << "node " << me << " of " << nodes;
    }
  }
}

TEST(NodeSchedule, RecursiveDoublingTakesAStepForEachPowerOfTwo) {
  for (const auto& [nodes, steps] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}}) {
    const auto schedule =
        make_node_schedule(NodeAlgorithm::kRecursiveDoubling, NodeGoal::kEveryNode, nodes, 0);
    EXPECT_EQ(schedule.steps.size(), static_cast<std::size_t>(steps));
  }
}

}  // namespace
}  // namespace hvd
